package cluster

import (
	clientv3 "go.etcd.io/etcd/client/v3"
)

// ConnectAll makes a client of each configuration, or none.
func ConnectAll(configs []clientv3.Config) ([]*clientv3.Client, error) {
	var clients []*clientv3.Client
	for _, config := range configs {
		client, err := clientv3.New(config)
		if err != nil {
			CloseAll(clients)
			return nil, err
		}
		clients = append(clients, client)
	}
	return clients, nil
}

// CloseAll closes clients and ignores their errors.
func CloseAll(clients []*clientv3.Client) {
	for _, client := range clients {
		client.Close()
	}
}
