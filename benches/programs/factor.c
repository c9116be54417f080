// Factors products of two primes by the continued fraction method, every intermediate number a
// block of its own: tens of millions of tiny, short-lived blocks from shallow stacks. Argument: how
// many products.
#include "bigint.h"
#include <stdio.h>

enum { PRIMES = 160, EXTRA = 20, RELATIONS = PRIMES + EXTRA, WORDS = (RELATIONS + 63) / 64 };

// A² ≡ ± Π base[i]^exponent[i] (mod N); exponent 0 belongs to -1.
struct relation {
    big *a;
    unsigned char exponent[PRIMES];
    uint64_t odd[(PRIMES + 63) / 64], history[WORDS];
};

static uint32_t base[PRIMES];
static struct relation relations[RELATIONS];
static int found;

static uint64_t power_modulo(uint64_t x, uint64_t e, uint64_t m) {
    uint64_t r = 1;
    for (x %= m; e; e >>= 1, x = (uint64_t)((__uint128_t)x * x % m))
        if (e & 1) r = (uint64_t)((__uint128_t)r * x % m);
    return r;
}

// Miller-Rabin with bases that decide every 64-bit number.
static int is_prime(uint64_t n) {
    static const uint64_t witnesses[] = {2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37};
    if (n < 2) return 0;
    for (int i = 0; i < 12; i++)
        if (n % witnesses[i] == 0) return n == witnesses[i];
    int twos = __builtin_ctzll(n - 1);
    for (int i = 0; i < 12; i++) {
        uint64_t x = power_modulo(witnesses[i], (n - 1) >> twos, n);
        int passes = x == 1 || x == n - 1;
        for (int s = 1; s < twos && !passes; s++) {
            x = (uint64_t)((__uint128_t)x * x % n);
            passes = x == n - 1;
        }
        if (!passes) return 0;
    }
    return 1;
}

static uint64_t next_prime(uint64_t n) {
    while (!is_prime(++n)) {}
    return n;
}

// -1, and the primes for which N is a square: only they divide a residue.
static void choose_base(const big *n) {
    base[0] = 1;
    base[1] = 2;
    uint32_t p = 2;
    for (int i = 2; i < PRIMES;) {
        uint32_t rest;
        p = (uint32_t)next_prime(p);
        free(big_divide_small(n, p, &rest));
        if (power_modulo(rest, (p - 1) / 2, p) <= 1) base[i++] = p;
    }
}

static void keep_if_smooth(const big *a, const big *q, int negative) {
    struct relation r = {0};
    big *left = big_copy(q);
    r.exponent[0] = (unsigned char)negative;
    for (int i = 1; i < PRIMES && !big_is(left, 1); i++) {
        for (;;) {
            uint32_t rest;
            big *quotient = big_divide_small(left, base[i], &rest);
            if (rest) {
                free(quotient);
                break;
            }
            big_set(&left, quotient);
            r.exponent[i]++;
        }
    }
    if (big_is(left, 1)) {
        for (int i = 0; i < PRIMES; i++) r.odd[i / 64] |= (uint64_t)(r.exponent[i] & 1) << i % 64;
        r.history[found / 64] |= 1ULL << found % 64;
        r.a = big_copy(a);
        relations[found++] = r;
    }
    free(left);
}

// P' = qQ - P, Q' = (N - P'²)/Q, q' = (g + P')/Q', A' = q'A + A₋₁ mod N; and A² ≡ (-1)ⁿQ'.
static void collect(const big *n) {
    big *g = big_root(n), *p = big_from(0), *q = big_from(1), *step = big_copy(g);
    big *a = big_modulo(g, n), *a_before = big_from(1);
    for (int odd = 1; found < RELATIONS; odd ^= 1) {
        big *product = big_multiply(step, q);
        big_set(&p, big_subtract(product, p));
        big *square = big_multiply(p, p), *difference = big_subtract(n, square);
        big_set(&q, big_divide(difference, q, NULL));
        keep_if_smooth(a, q, odd);
        big *sum = big_add(g, p);
        big_set(&step, big_divide(sum, q, NULL));
        big *scaled = big_multiply(step, a), *next = big_add(scaled, a_before);
        big_set(&a_before, a);
        a = big_modulo(next, n);
        free(product), free(square), free(difference), free(sum), free(scaled), free(next);
    }
    free(g), free(p), free(q), free(step), free(a), free(a_before);
}

// A set of relations whose product is a square on both sides: x² ≡ y², and gcd(x - y, N) may divide
// N.
static big *try_square(const uint64_t *history, const big *n) {
    big *x = big_from(1), *y = big_from(1);
    int total[PRIMES] = {0};
    for (int r = 0; r < RELATIONS; r++) {
        if (!(history[r / 64] >> r % 64 & 1)) continue;
        big_set(&x, big_multiply_modulo(x, relations[r].a, n));
        for (int i = 0; i < PRIMES; i++) total[i] += relations[r].exponent[i];
    }
    for (int i = 1; i < PRIMES; i++) {
        big *prime = big_from(base[i]);
        for (int e = 0; e < total[i] / 2; e++) big_set(&y, big_multiply_modulo(y, prime, n));
        free(prime);
    }
    big *difference = big_compare(x, y) >= 0 ? big_subtract(x, y) : big_subtract(y, x);
    big *divisor = big_common_divisor(n, difference);
    free(x), free(y), free(difference);
    if (!big_is(divisor, 1) && big_compare(divisor, n) != 0) return divisor;
    free(divisor);
    return NULL;
}

// Gauss over GF(2): a row without odd exponents left is a square.
static big *eliminate(const big *n) {
    for (int column = 0, top = 0; column < PRIMES; column++) {
        int pivot = top;
        while (pivot < RELATIONS && !(relations[pivot].odd[column / 64] >> column % 64 & 1)) pivot++;
        if (pivot == RELATIONS) continue;
        // Only the bit rows move: exponents and `a` stay where the history points to.
        for (int row = pivot + 1; row < RELATIONS; row++) {
            if (!(relations[row].odd[column / 64] >> column % 64 & 1)) continue;
            for (unsigned w = 0; w < sizeof relations->odd / 8; w++) relations[row].odd[w] ^= relations[pivot].odd[w];
            for (int w = 0; w < WORDS; w++) relations[row].history[w] ^= relations[pivot].history[w];
        }
        uint64_t odd[sizeof relations->odd / 8], history[WORDS];
        memcpy(odd, relations[pivot].odd, sizeof odd), memcpy(history, relations[pivot].history, sizeof history);
        memcpy(relations[pivot].odd, relations[top].odd, sizeof odd);
        memcpy(relations[pivot].history, relations[top].history, sizeof history);
        memcpy(relations[top].odd, odd, sizeof odd), memcpy(relations[top].history, history, sizeof history);
        top++;
    }
    for (int row = 0; row < RELATIONS; row++) {
        uint64_t any = 0;
        for (unsigned w = 0; w < sizeof relations->odd / 8; w++) any |= relations[row].odd[w];
        big *divisor = any ? NULL : try_square(relations[row].history, n);
        if (divisor) return divisor;
    }
    return NULL;
}

static int factor(uint64_t first, uint64_t second) {
    big *a = big_from(first), *b = big_from(second), *n = big_multiply(a, b);
    choose_base(n);
    found = 0;
    collect(n);
    big *divisor = eliminate(n);
    int right = divisor && (big_compare(divisor, a) == 0 || big_compare(divisor, b) == 0);
    for (int i = 0; i < RELATIONS; i++) free(relations[i].a);
    free(a), free(b), free(n), free(divisor);
    return right;
}

int main(int argc, char **argv) {
    int products = argc > 1 ? atoi(argv[1]) : 20, right = 0;
    for (int i = 0; i < products; i++) {
        uint64_t from = 1000000000000ULL + (uint64_t)i * 7654321987ULL;
        right += factor(next_prime(from), next_prime(from * 3));
    }
    printf("%d of %d factored\n", right, products);
    return right * 10 >= products * 9 ? 0 : 1;
}
