mod hash_kv;
