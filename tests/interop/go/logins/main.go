// Clients that log in, driven by lines: franz-go, or sarama where the program gets its name. FILE has JSON: see settings.
//
//	trip FILE TOPIC   a transaction that commits and one that aborts, and what a group reads of them
//	open FILE TOPIC   a client that stays, and a record
//	send              one more record, by the same connections as long as they live
//	shut              closes it
//
// Each is answered by one line: "ok" and the result, or "failed" and the error.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"
)

const (
	count    = 5
	patience = 90 * time.Second
)

type settings struct {
	Servers, Mechanism, User, Password string
	Token                              bool   // whether User and Password are those of a delegation token
	CA, Certificate                    string // files in PEM; Certificate has the key too. No CA: without TLS
	Bearer                             string // a file with a token of an identity provider, which is read for each login
	Keytab, Krb5, Service, Realm       string
}

// family is what a client can do; the line's first word names the function.
type family interface {
	trip(with settings, topic string) (string, error)
	open(with settings, topic string) error
	send() error
	shut()
}

func read(file string) (settings, error) {
	var found settings
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &found)
	}
	return found, err
}

// secure returns the configuration of TLS, or nil.
func (with settings) secure() (*tls.Config, error) {
	if with.CA == "" {
		return nil, nil
	}
	text, err := os.ReadFile(with.CA)
	if err != nil {
		return nil, err
	}
	made := &tls.Config{RootCAs: x509.NewCertPool()}
	made.RootCAs.AppendCertsFromPEM(text)
	if with.Certificate != "" {
		own, err := tls.LoadX509KeyPair(with.Certificate, with.Certificate)
		if err != nil {
			return nil, err
		}
		made.Certificates = []tls.Certificate{own}
	}
	return made, nil
}

// bearer returns the token of an identity provider.
func (with settings) bearer() (string, error) {
	token, err := os.ReadFile(with.Bearer)
	return strings.TrimSpace(string(token)), err
}

func limited() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), patience)
}

func answer(client family, words []string) (string, error) {
	switch words[0] {
	case "send":
		return "", client.send()
	case "shut":
		client.shut()
		return "", nil
	}
	with, err := read(words[1])
	if err != nil {
		return "", err
	}
	if words[0] == "trip" {
		return client.trip(with, words[2])
	}
	client.shut()
	return "", client.open(with, words[2])
}

func described(values []string, committed bool) string {
	text := strings.Join(values, ",")
	if committed {
		text += " committed"
	}
	return text
}

func main() {
	var client family = &franz{}
	if len(os.Args) > 1 && os.Args[1] == "sarama" {
		client = &shopify{}
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		if text, err := answer(client, strings.Fields(lines.Text())); err != nil {
			fmt.Println("failed", strings.ReplaceAll(err.Error(), "\n", " "))
		} else {
			fmt.Println("ok", text)
		}
	}
}
