// The program of the smallest image there is: what every pod's first container runs, and what the tests of
// hack/cluster look with from inside a pod.
//
//	pod pause            wait for a signal to end, and reap until then
//	pod resolve NAME     print the addresses of a name, once there are any
//	pod get PATH         ask the API server as this pod's service account, and print the answer
package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

const account = "/var/run/secrets/kubernetes.io/serviceaccount/"

func main() {
	arguments := append(os.Args[1:], "", "")
	var err error
	switch arguments[0] {
	case "", "pause":
		pause()
	case "resolve":
		err = resolve(arguments[1])
	case "get":
		err = get(arguments[1])
	default:
		err = fmt.Errorf("no such verb: %s", arguments[0])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func pause() {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	for received := range signals {
		if received != syscall.SIGCHLD {
			return
		}
		for pid := 1; pid > 0; {
			pid, _ = syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		}
	}
}

func resolve(name string) error {
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(200 * time.Millisecond) {
		addresses, err := net.LookupHost(name)
		if err == nil {
			fmt.Println(addresses)
			return nil
		}
		if time.Now().After(deadline) {
			return err
		}
	}
}

func get(path string) error {
	authority, err := os.ReadFile(account + "ca.crt")
	if err != nil {
		return err
	}
	token, err := os.ReadFile(account + "token")
	if err != nil {
		return err
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(authority)
	url := "https://" + net.JoinHostPort(os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")) + path
	request, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+string(token))
	client := http.Client{
		Timeout:   30 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted}},
	}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	fmt.Println(answer.StatusCode, string(text))
	return err
}
