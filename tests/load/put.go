package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// put puts keys, with a background load or request, or compactions, if requested.
func put(ctx context.Context, s *session, o options) error {
	prepare := preparations[o.while]
	if prepare != nil {
		if err := prepare(ctx, s, o); err != nil {
			return fmt.Errorf("prepare %s: %w", o.while, err)
		}
	}
	value := strings.Repeat("v", o.valueSize)
	request := func(client *clientv3.Client, number int) error {
		if !o.sequential {
			number = rand.IntN(o.keySpace)
		}
		_, err := client.Put(ctx, o.key(number%o.keySpace), value)
		return err
	}
	if o.compactEvery > 0 {
		stop := startCompacting(ctx, s.conns[0], o.compactEvery)
		s.drive(o, request)
		return stop()
	}
	if o.while == "" {
		s.drive(o, request)
		return nil
	}
	other, err := startBackground(ctx, o)
	if err != nil {
		return err
	}
	s.driveUntil(o, other.hasEnded, request)
	return other.stop()
}

// key is the name of a key with a number.
func (o options) key(number int) string {
	if o.kubernetes {
		return kubernetesKey(number)
	}
	return key(number)
}

// resources are the beginnings that most keys of a Kubernetes cluster share.
var resources = []string{"pods", "events", "leases", "secrets", "configmaps", "replicasets"}

// namespaces is the number of namespaces that the objects are spread over.
const namespaces = 100

// kubernetesKey is 70 bytes: resource and namespace, a name that many objects share the beginning of, and a suffix
// that looks random and differs from number to number.
func kubernetesKey(number int) string {
	resource := resources[number%len(resources)]
	// An odd factor keeps different numbers different.
	suffix := uint64(number) * 0x9e3779b97f4a7c15
	begin := fmt.Sprintf("/registry/%s/namespace-%02d/deployment-", resource, number/len(resources)%namespaces)
	name := fmt.Sprintf("%016x", suffix)
	return begin + strings.Repeat("a", 70-len(begin)-len(name)) + name
}
