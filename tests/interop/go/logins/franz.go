package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/jcmturner/gokrb5/v8/client"
	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/kerberos"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

type franz struct {
	client *kgo.Client
	topic  string
}

func byKerberos(with settings) (sasl.Mechanism, error) {
	keys, err := keytab.Load(with.Keytab)
	if err != nil {
		return nil, err
	}
	where, err := config.Load(with.Krb5)
	if err != nil {
		return nil, err
	}
	made := client.NewWithKeytab(with.User, with.Realm, keys, where, client.DisablePAFXFAST(true))
	return kerberos.Auth{Client: made, Service: with.Service}.AsMechanismWithClose(), nil
}

func mechanism(with settings) (sasl.Mechanism, error) {
	by := scram.Auth{User: with.User, Pass: with.Password, IsToken: with.Token}
	switch with.Mechanism {
	case "PLAIN":
		return plain.Auth{User: with.User, Pass: with.Password}.AsMechanism(), nil
	case "SCRAM-SHA-256":
		return by.AsSha256Mechanism(), nil
	case "SCRAM-SHA-512":
		return by.AsSha512Mechanism(), nil
	case "OAUTHBEARER":
		return oauth.Oauth(func(context.Context) (oauth.Auth, error) {
			token, err := with.bearer()
			return oauth.Auth{Token: token}, err
		}), nil
	case "GSSAPI":
		return byKerberos(with)
	}
	return nil, fmt.Errorf("no mechanism %s", with.Mechanism)
}

func newFranz(with settings, more ...kgo.Opt) (*kgo.Client, error) {
	options := append(more, kgo.SeedBrokers(with.Servers), kgo.AllowAutoTopicCreation())
	secure, err := with.secure()
	if err != nil {
		return nil, err
	}
	if secure != nil {
		options = append(options, kgo.DialTLSConfig(secure))
	}
	if with.Mechanism != "" {
		by, err := mechanism(with)
		if err != nil {
			return nil, err
		}
		options = append(options, kgo.SASL(by))
	}
	return kgo.NewClient(options...)
}

func (f *franz) open(with settings, topic string) error {
	made, err := newFranz(with)
	if err != nil {
		return err
	}
	f.client, f.topic = made, topic
	return f.send()
}

// send asks for a list of versions first: it does not try again, as a producer does.
func (f *franz) send() error {
	ctx, cancel := limited()
	defer cancel()
	if err := f.client.Ping(ctx); err != nil {
		return err
	}
	return f.client.ProduceSync(ctx, &kgo.Record{Topic: f.topic, Value: []byte("x")}).FirstErr()
}

func (f *franz) shut() {
	if f.client != nil {
		f.client.Close()
		f.client = nil
	}
}

func (f *franz) trip(with settings, topic string) (string, error) {
	if err := transact(with, topic); err != nil {
		return "", err
	}
	consumer, err := newFranz(with,
		kgo.ConsumerGroup(topic),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.DisableAutoCommit(),
	)
	if err != nil {
		return "", err
	}
	defer consumer.Close()
	ctx, cancel := limited()
	defer cancel()
	var values []string
	for len(values) < count {
		fetches := consumer.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return "", err
		}
		fetches.EachRecord(func(read *kgo.Record) { values = append(values, string(read.Value)) })
	}
	if err := consumer.CommitUncommittedOffsets(ctx); err != nil {
		return "", err
	}
	return described(values, consumer.CommittedOffsets()[topic][0].Offset >= count), nil
}

func transact(with settings, topic string) error {
	producer, err := newFranz(with, kgo.TransactionalID(topic), kgo.DefaultProduceTopic(topic))
	if err != nil {
		return err
	}
	defer producer.Close()
	ctx, cancel := limited()
	defer cancel()
	send := func(end kgo.TransactionEndTry, values ...string) error {
		if err := producer.BeginTransaction(); err != nil {
			return err
		}
		for _, value := range values {
			if err := producer.ProduceSync(ctx, kgo.StringRecord(value)).FirstErr(); err != nil {
				return err
			}
		}
		return producer.EndTransaction(ctx, end)
	}
	if err := send(kgo.TryAbort, "aborted"); err != nil {
		return err
	}
	return send(kgo.TryCommit, numbers()...)
}

func numbers() []string {
	made := make([]string, count)
	for number := range made {
		made[number] = strconv.Itoa(number)
	}
	return made
}
