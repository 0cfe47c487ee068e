// Trees that are built and dropped by several goroutines at once.
package main

import (
	"fmt"
	"runtime"
	"sync"
)

type tree struct{ left, right *tree }

func grow(depth int) *tree {
	if depth == 0 {
		return &tree{}
	}
	return &tree{grow(depth - 1), grow(depth - 1)}
}

func (t *tree) count() int {
	if t.left == nil {
		return 1
	}
	return 1 + t.left.count() + t.right.count()
}

func main() {
	var wait sync.WaitGroup
	var lock sync.Mutex
	total := 0
	for worker := 0; worker < 8; worker++ {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for round := 0; round < 12; round++ {
				nodes := grow(13).count()
				lock.Lock()
				total += nodes
				lock.Unlock()
			}
		}()
	}
	wait.Wait()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	fmt.Println(total, memory.NumGC, memory.TotalAlloc, memory.PauseTotalNs)
}
