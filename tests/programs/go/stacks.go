// Blocks that C.malloc allocates for functions of Go: on the main goroutine, below recursion,
// through closures and interfaces, on other goroutines, and in a function of Go that C calls.
// Notes the stack that runtime.Callers reports for each, as `witness stack BYTES NAMES`.
package main

/*
#include <stdlib.h>

extern void goCallback(int bytes);
static void callBack(int bytes) { goCallback(bytes); }

// The frame pointer is an ordinary register in C. In the function that calls goPlace it is the
// argument, here an address below the stack.
extern void goPlace(void *place);
static void callBackWithPlace(void) { goPlace((char *)__builtin_frame_address(0) - 65536); }
*/
import "C"

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"unsafe"
)

var (
	lock  sync.Mutex
	held  []unsafe.Pointer
	bytes = map[string]int{}
)

// Allocates and notes the functions that called it, the innermost first.
//
//go:noinline
func allocate(size int) {
	block := C.malloc(C.size_t(size))
	var callers [64]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(1, callers[:])])
	var names []string
	for {
		frame, more := frames.Next()
		names = append(names, frame.Function)
		if !more {
			break
		}
	}
	lock.Lock()
	held = append(held, block)
	bytes[strings.Join(names, ";")] += size
	lock.Unlock()
}

//go:noinline
func recurse(depth, size int) {
	if depth == 0 {
		allocate(size)
	} else {
		recurse(depth-1, size)
		runtime.KeepAlive(depth)
	}
}

type shape interface{ hold(size int) }
type square struct{ side int }

//go:noinline
func (s *square) hold(size int) {
	allocate(size + s.side)
	runtime.KeepAlive(s)
}

//export goCallback
func goCallback(size C.int) {
	allocate(int(size))
	recurse(2, int(size))
}

//export goPlace
func goPlace(place unsafe.Pointer) {
	allocate(6500)
	runtime.KeepAlive(place)
}

// The stack of a goroutine is copied to another address when it grows.
//
//go:noinline
func grow(levels int) int {
	var pad [512]byte
	pad[levels%512] = byte(levels)
	if levels == 0 {
		recurse(3, 5000)
		return int(pad[0])
	}
	return grow(levels-1) + int(pad[levels%512])
}

func main() {
	for round := 0; round < 50; round++ {
		allocate(1000 + round)
		for depth := 0; depth < 20; depth++ {
			recurse(depth, 2000+depth)
		}
		var held shape = &square{side: round}
		held.hold(3000)
		func() { allocate(4000) }()
		grow(round)
		C.callBack(6000)
		C.callBackWithPlace()
	}
	var group sync.WaitGroup
	for worker := 0; worker < 8; worker++ {
		group.Add(1)
		worker := worker
		go func() {
			defer group.Done()
			for round := 0; round < 50; round++ {
				allocate(7000 + worker)
				recurse(worker, 8000)
			}
		}()
	}
	group.Wait()
	for stack, size := range bytes {
		fmt.Printf("witness stack %d %s\n", size, stack)
	}
}
