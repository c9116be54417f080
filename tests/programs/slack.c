// Hazard: blocks are larger than requested, grow by realloc, and peak at different moments at
// different sites.
// Counts: all of it; `slack.bytes` usable beyond requested of what is live, `grown.bytes` what
// reallocs added, and per site `w_wave0|1|2.peak_bytes` what it held at the peak of all;
// `peak_bytes` of all. Argument: rounds.
#include "witness.h"

enum { SITES = 3, BLOCKS = 600 };
static struct w_block held[SITES][BLOCKS];
static uint64_t live[SITES], at_peak[SITES], all_live, all_peak, grown;

static void note_peak(void) {
    if (all_live <= all_peak) return;
    all_peak = all_live;
    for (int site = 0; site < SITES; site++) at_peak[site] = live[site];
}

static void note(int site, int64_t change) {
    live[site] += change, all_live += change;
    note_peak();
}

// One size per site: what a site holds at most is then one number of one kind of block.
static W_SITE void w_wave0(int i) { held[0][i] = w_malloc(40); note(0, 40); }
static W_SITE void w_wave1(int i) { held[1][i] = w_malloc(1000); note(1, 1000); }
static W_SITE void w_wave2(int i) { held[2][i] = w_malloc(3000); note(2, 3000); }

static void wave(uint64_t round) {
    static void (*const site[SITES])(int) = {w_wave0, w_wave1, w_wave2};
    for (int s = 0; s < SITES; s++) {
        int most = (int)(1 + (round * 131 + (uint64_t)s * 77) % BLOCKS);
        for (int i = 0; i < most; i++) site[s](i);
        for (int i = 0; i < most; i++) w_free(held[s][i]), note(s, -(int64_t)held[s][i].size), held[s][i].p = NULL;
    }
}

static W_SITE void w_grow(struct w_block *block, size_t size) {
    if (block->p && size > block->size) grown += size - block->size;
    all_live += size - block->size;
    w_realloc(block, size);
    note_peak();
}

int main(int argc, char **argv) {
    uint64_t rounds = w_argument(argc, argv, 1, 20), seed = 7;
    static struct w_block kept[400];
    for (uint64_t round = 0; round < rounds; round++) {
        wave(round);
        for (int i = 0; i < 400; i++) w_grow(&kept[i], 1 + w_random(&seed) % (i % 50 ? 500 : 200000));
    }
    uint64_t slack = 0;
    for (int i = 0; i < 400; i++) slack += malloc_usable_size(kept[i].p) - kept[i].size;
    w_report("");
    w_say("slack.", "bytes", slack);
    w_say("grown.", "bytes", grown);
    w_say("", "peak_bytes", all_peak);
    w_say("w_wave0.", "peak_bytes", at_peak[0]);
    w_say("w_wave1.", "peak_bytes", at_peak[1]);
    w_say("w_wave2.", "peak_bytes", at_peak[2]);
    return 0;
}
