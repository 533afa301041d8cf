// Command older-clients checks a server with etcd's Go client v3.5.0, which this module pins; v3.6 does so with v3.6.
package main

import "stele.test/older-clients/checks"

func main() { checks.Main() }
