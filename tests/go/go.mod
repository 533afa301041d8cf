module stele.test

go 1.26
