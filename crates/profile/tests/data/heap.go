// Go's own heap profile of 100 blocks of 1 KiB and one of 1 MiB.
package main

import (
	"os"
	"runtime"
	"runtime/pprof"
)

var keep [][]byte

//go:noinline
func small() { keep = append(keep, make([]byte, 1024)) }

//go:noinline
func large() { keep = append(keep, make([]byte, 1<<20)) }

func main() {
	runtime.MemProfileRate = 1
	keep = make([][]byte, 0, 128)
	for i := 0; i < 100; i++ {
		small()
	}
	large()
	runtime.GC()
	out, _ := os.Create("go.pb.gz")
	pprof.Lookup("heap").WriteTo(out, 0)
	out.Close()
}
