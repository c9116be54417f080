// What the generated functions share with the benchmark (src/scenario.rs has the same layout).
#pragma once

typedef struct chain chain;
typedef long (*function)(chain *, long);
typedef long (*leaf)(chain *, void *body);

struct chain {
    leaf leaf;
    void *body;
    void *memo;
    long repeats;            // captures in the innermost frame
    long salt;               // which functions a fixed chain goes through
    const unsigned char *steps; // 0 capture, 1 return, 255 end, else call that function
    void *sink;
    long numbers[8];
    function fixed[128];
    function walking[128];
};
