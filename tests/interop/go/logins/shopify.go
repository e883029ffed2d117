package main

import (
	"context"

	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"
)

// shopify is sarama, a client with a protocol implementation of its own.
type shopify struct {
	client   sarama.Client
	producer sarama.SyncProducer
	topic    string
}

// conversation is SCRAM for sarama, which leaves it to its users.
type conversation struct {
	*scram.ClientConversation
	hash scram.HashGeneratorFcn
}

func (c *conversation) Begin(user, password, authorization string) error {
	by, err := c.hash.NewClient(user, password, authorization)
	if err == nil {
		c.ClientConversation = by.NewConversation()
	}
	return err
}

// bearers gives sarama the token of each login.
type bearers struct{ settings }

func (b bearers) Token() (*sarama.AccessToken, error) {
	token, err := b.bearer()
	return &sarama.AccessToken{Token: token}, err
}

func configuration(with settings) (*sarama.Config, error) {
	made := sarama.NewConfig()
	made.ClientID = "sarama"
	made.Producer.Return.Successes = true
	made.Producer.Idempotent = true
	made.Producer.RequiredAcks = sarama.WaitForAll
	made.Net.MaxOpenRequests = 1
	made.Consumer.Offsets.Initial = sarama.OffsetOldest
	made.Consumer.Offsets.AutoCommit.Enable = false
	made.Consumer.IsolationLevel = sarama.ReadCommitted
	secure, err := with.secure()
	if err != nil {
		return nil, err
	}
	made.Net.TLS.Enable, made.Net.TLS.Config = secure != nil, secure
	if with.Mechanism == "" {
		return made, nil
	}
	login := &made.Net.SASL
	login.Enable, login.Mechanism = true, sarama.SASLMechanism(with.Mechanism)
	login.User, login.Password = with.User, with.Password
	login.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient {
		hash := scram.SHA512
		if with.Mechanism == sarama.SASLTypeSCRAMSHA256 {
			hash = scram.SHA256
		}
		return &conversation{hash: hash}
	}
	login.TokenProvider = bearers{with}
	login.GSSAPI = sarama.GSSAPIConfig{
		AuthType:           sarama.KRB5_KEYTAB_AUTH,
		KeyTabPath:         with.Keytab,
		KerberosConfigPath: with.Krb5,
		ServiceName:        with.Service,
		Username:           with.User,
		Realm:              with.Realm,
		DisablePAFXFAST:    true,
	}
	return made, nil
}

func (s *shopify) open(with settings, topic string) error {
	made, err := configuration(with)
	if err != nil {
		return err
	}
	made.Metadata.Retry.Max = 0
	if s.client, err = sarama.NewClient([]string{with.Servers}, made); err != nil {
		s.client = nil
		return err
	}
	if s.producer, err = sarama.NewSyncProducerFromClient(s.client); err != nil {
		return err
	}
	s.topic = topic
	return s.send()
}

func (s *shopify) send() error {
	_, _, err := s.producer.SendMessage(&sarama.ProducerMessage{Topic: s.topic, Value: sarama.StringEncoder("x")})
	return err
}

func (s *shopify) shut() {
	if s.producer != nil {
		s.producer.Close()
		s.producer = nil
	}
	if s.client != nil {
		s.client.Close()
		s.client = nil
	}
}

func (s *shopify) trip(with settings, topic string) (string, error) {
	made, err := configuration(with)
	if err != nil {
		return "", err
	}
	if err := s.transact(with, topic); err != nil {
		return "", err
	}
	group, err := sarama.NewConsumerGroup([]string{with.Servers}, topic, made)
	if err != nil {
		return "", err
	}
	defer group.Close()
	ctx, cancel := limited()
	defer cancel()
	reader := &reader{stop: cancel}
	for len(reader.values) < count {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		if err := group.Consume(ctx, []string{topic}, reader); err != nil {
			return "", err
		}
	}
	committed, err := committedOffset(with.Servers, topic, made)
	return described(reader.values, committed >= count), err
}

func committedOffset(servers, topic string, made *sarama.Config) (int64, error) {
	admin, err := sarama.NewClusterAdmin([]string{servers}, made)
	if err != nil {
		return 0, err
	}
	defer admin.Close()
	found, err := admin.ListConsumerGroupOffsets(topic, map[string][]int32{topic: {0}})
	if err != nil {
		return 0, err
	}
	return found.GetBlock(topic, 0).Offset, nil
}

// transact makes the topic by asking for it, which a producer with a transactional id does not.
func (s *shopify) transact(with settings, topic string) error {
	made, err := configuration(with)
	if err != nil {
		return err
	}
	made.Producer.Transaction.ID = topic
	producer, err := sarama.NewSyncProducer([]string{with.Servers}, made)
	if err != nil {
		return err
	}
	defer producer.Close()
	send := func(end func() error, values ...string) error {
		if err := producer.BeginTxn(); err != nil {
			return err
		}
		for _, value := range values {
			message := &sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder(value)}
			if _, _, err := producer.SendMessage(message); err != nil {
				return err
			}
		}
		return end()
	}
	if err := send(producer.AbortTxn, "aborted"); err != nil {
		return err
	}
	return send(producer.CommitTxn, numbers()...)
}

// reader takes the records of a group until it has enough of them.
type reader struct {
	values []string
	stop   context.CancelFunc
}

func (r *reader) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (r *reader) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (r *reader) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case read := <-claim.Messages():
			if read == nil {
				return nil
			}
			r.values = append(r.values, string(read.Value))
			session.MarkMessage(read, "")
			if len(r.values) == count {
				session.Commit()
				r.stop()
			}
		case <-session.Context().Done():
			return nil
		}
	}
}
