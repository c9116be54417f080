// Unsigned big integers, a fresh block for every number: the allocation pattern `factor` is about.
// Little-endian 32-bit limbs, no leading zero limb; zero has none.
#pragma once

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    uint32_t limbs;
    uint32_t limb[];
} big;

static inline big *big_room(uint32_t limbs) {
    big *b = malloc(sizeof *b + limbs * sizeof(uint32_t));
    if (!b) abort();
    b->limbs = limbs;
    return b;
}

static inline big *big_trim(big *b) {
    while (b->limbs && !b->limb[b->limbs - 1]) b->limbs--;
    return b;
}

static inline void big_set(big **to, big *fresh) {
    free(*to);
    *to = fresh;
}

static inline big *big_copy(const big *a) {
    big *r = big_room(a->limbs);
    memcpy(r->limb, a->limb, a->limbs * sizeof(uint32_t));
    return r;
}

static inline big *big_from(uint64_t value) {
    big *r = big_room(2);
    r->limb[0] = (uint32_t)value;
    r->limb[1] = (uint32_t)(value >> 32);
    return big_trim(r);
}

static inline int big_compare(const big *a, const big *b) {
    if (a->limbs != b->limbs) return a->limbs < b->limbs ? -1 : 1;
    for (uint32_t i = a->limbs; i--;)
        if (a->limb[i] != b->limb[i]) return a->limb[i] < b->limb[i] ? -1 : 1;
    return 0;
}

static inline int big_is(const big *a, uint32_t value) {
    return value ? a->limbs == 1 && a->limb[0] == value : a->limbs == 0;
}

static inline big *big_add(const big *a, const big *b) {
    if (a->limbs < b->limbs) return big_add(b, a);
    big *r = big_room(a->limbs + 1);
    uint64_t carry = 0;
    for (uint32_t i = 0; i < a->limbs; i++) {
        carry += (uint64_t)a->limb[i] + (i < b->limbs ? b->limb[i] : 0);
        r->limb[i] = (uint32_t)carry;
        carry >>= 32;
    }
    r->limb[a->limbs] = (uint32_t)carry;
    return big_trim(r);
}

// a - b, for a >= b.
static inline big *big_subtract(const big *a, const big *b) {
    big *r = big_room(a->limbs);
    int64_t borrow = 0;
    for (uint32_t i = 0; i < a->limbs; i++) {
        borrow += (int64_t)a->limb[i] - (i < b->limbs ? b->limb[i] : 0);
        r->limb[i] = (uint32_t)borrow;
        borrow >>= 32;
    }
    return big_trim(r);
}

static inline big *big_multiply(const big *a, const big *b) {
    big *r = big_room(a->limbs + b->limbs);
    memset(r->limb, 0, r->limbs * sizeof(uint32_t));
    for (uint32_t i = 0; i < a->limbs; i++) {
        uint64_t carry = 0;
        for (uint32_t j = 0; j < b->limbs; j++) {
            carry += (uint64_t)a->limb[i] * b->limb[j] + r->limb[i + j];
            r->limb[i + j] = (uint32_t)carry;
            carry >>= 32;
        }
        r->limb[i + b->limbs] = (uint32_t)carry;
    }
    return big_trim(r);
}

// Quotient by a small number; the remainder through `rest`.
static inline big *big_divide_small(const big *a, uint32_t by, uint32_t *rest) {
    big *r = big_room(a->limbs);
    uint64_t carry = 0;
    for (uint32_t i = a->limbs; i--;) {
        carry = carry << 32 | a->limb[i];
        r->limb[i] = (uint32_t)(carry / by);
        carry %= by;
    }
    *rest = (uint32_t)carry;
    return big_trim(r);
}

static inline big *big_shift_left(const big *a, unsigned bits) {
    big *r = big_room(a->limbs + 1);
    uint64_t carry = 0;
    for (uint32_t i = 0; i < a->limbs; i++) {
        carry |= (uint64_t)a->limb[i] << bits;
        r->limb[i] = (uint32_t)carry;
        carry >>= 32;
    }
    r->limb[a->limbs] = (uint32_t)carry;
    return r;
}

// One quotient digit of Knuth's algorithm D: u[0..=n] -= digit * v, for normalised v.
static inline uint32_t big_quotient_digit(uint32_t *u, const big *v) {
    uint32_t n = v->limbs;
    uint64_t top = (uint64_t)u[n] << 32 | u[n - 1];
    uint64_t digit = top / v->limb[n - 1], rest = top % v->limb[n - 1];
    while (digit >> 32 || digit * v->limb[n - 2] > (rest << 32 | u[n - 2])) {
        digit--;
        rest += v->limb[n - 1];
        if (rest >> 32) break;
    }
    int64_t borrow = 0;
    uint64_t carry = 0;
    for (uint32_t i = 0; i <= n; i++) {
        carry += i < n ? digit * v->limb[i] : 0;
        borrow += (int64_t)u[i] - (int64_t)(uint32_t)carry;
        u[i] = (uint32_t)borrow;
        borrow >>= 32;
        carry >>= 32;
    }
    if (borrow >= 0) return (uint32_t)digit;
    for (uint32_t i = 0, over = 0; i <= n; i++) {
        uint64_t sum = (uint64_t)u[i] + (i < n ? v->limb[i] : 0) + over;
        u[i] = (uint32_t)sum;
        over = (uint32_t)(sum >> 32);
    }
    return (uint32_t)digit - 1;
}

// Quotient; the remainder, a fresh number, through `rest` unless that is null.
static inline big *big_divide(const big *a, const big *by, big **rest) {
    if (big_compare(a, by) < 0) {
        if (rest) *rest = big_copy(a);
        return big_room(0);
    }
    if (by->limbs == 1) {
        uint32_t small;
        big *quotient = big_divide_small(a, by->limb[0], &small);
        if (rest) *rest = big_from(small);
        return quotient;
    }
    unsigned shift = (unsigned)__builtin_clz(by->limb[by->limbs - 1]);
    big *u = big_shift_left(a, shift), *v = big_trim(big_shift_left(by, shift));
    big *quotient = big_room(u->limbs - v->limbs);
    for (uint32_t i = quotient->limbs; i--;) quotient->limb[i] = big_quotient_digit(u->limb + i, v);
    if (rest) {
        u->limbs = v->limbs;
        for (uint32_t i = 0; i < u->limbs; i++) {
            uint64_t pair = u->limb[i] | (uint64_t)(i + 1 < u->limbs ? u->limb[i + 1] : 0) << 32;
            u->limb[i] = (uint32_t)(pair >> shift);
        }
        *rest = big_trim(u);
    } else {
        free(u);
    }
    free(v);
    return big_trim(quotient);
}

static inline big *big_modulo(const big *a, const big *by) {
    big *rest;
    free(big_divide(a, by, &rest));
    return rest;
}

static inline big *big_multiply_modulo(const big *a, const big *b, const big *by) {
    big *product = big_multiply(a, b), *rest = big_modulo(product, by);
    free(product);
    return rest;
}

// Floor of the square root, by Newton's steps from above.
static inline big *big_root(const big *a) {
    big *guess = big_room(a->limbs / 2 + 2);
    memset(guess->limb, 0, guess->limbs * sizeof(uint32_t));
    guess->limb[guess->limbs - 1] = 1;
    for (;;) {
        uint32_t odd;
        big *quotient = big_divide(a, guess, NULL), *sum = big_add(guess, quotient);
        big *next = big_divide_small(sum, 2, &odd);
        free(quotient), free(sum);
        if (big_compare(next, guess) >= 0) return free(next), guess;
        big_set(&guess, next);
    }
}

static inline big *big_common_divisor(const big *a, const big *b) {
    big *x = big_copy(a), *y = big_copy(b);
    while (y->limbs) {
        big *rest = big_modulo(x, y);
        free(x);
        x = y, y = rest;
    }
    return free(y), x;
}
