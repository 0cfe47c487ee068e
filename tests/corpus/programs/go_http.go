// A server that answers with a thousand bytes until SIGTERM comes.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"
)

func main() {
	var served atomic.Int64
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		count := served.Add(1)
		body := make([]byte, 1000)
		for i := range body {
			body[i] = byte('a' + (int(count)+i)%26)
		}
		w.Write(body)
	})
	server := &http.Server{Addr: os.Args[1]}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	go func() {
		<-stop
		limit, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		server.Shutdown(limit)
	}()
	fmt.Println(server.ListenAndServe(), served.Load())
}
