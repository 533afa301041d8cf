// Command v3.6 checks a server with etcd's Go client v3.6, which this module pins.
package main

import "stele.test/older-clients/checks"

func main() { checks.Main() }
