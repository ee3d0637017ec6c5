// RUN: heddle-opt %s --split-input-file --spmd-localize --spmd-verify | FileCheck %s

// Rows are split: every reshard becomes the cheapest collective, and shapes are
// those of one rank.

// CHECK-LABEL: nn.model @reshards
nn.model @reshards family "gpt2" phase "pipe" attributes {
    strategy = #dist.strategy<{batch = {global = 2}, mesh = {data = 2}}>, config = "{}", weights = {}} {
  dist.mesh @mesh [#dist.axis<"pipe" = 1>, #dist.axis<"data" = 2>, #dist.axis<"seq" = 1>, #dist.axis<"tensor" = 2>]
  // CHECK: nn.step @train(%[[X:[^:]*]]: tensor<2x8xf32>
  // CHECK-SAME: ports = {x = {sharding = #dist.sharding<{{\[\[}}"data"], []], unreduced []>, whole = tensor<4x8xf32>}}
  nn.step @train(%x: tensor<4x8xf32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = [],
      arg_shardings = [#dist.sharding<[["data"], []], unreduced []>], result_shardings = []} {
    // CHECK: %[[PART:.*]] = nn.sum_rows %[[X]] : (tensor<2x8xf32>) -> tensor<8xf32>
    %0 = nn.sum_rows %x {shardings = [#dist.sharding<[[]], unreduced ["data"]>]} : (tensor<4x8xf32>) -> tensor<8xf32>
    // CHECK: dist.all_reduce %[[PART]] axes ["data"] for "a" : tensor<8xf32> -> tensor<8xf32>
    %1 = dist.reshard %0 from <[[]], unreduced ["data"]> to <[[]], unreduced []> for "a" : tensor<8xf32>
    // CHECK: %[[SPLIT:.*]] = dist.reduce_scatter %[[PART]] axes ["data"] dim 0 for "b" : tensor<8xf32> -> tensor<4xf32>
    %2 = dist.reshard %0 from <[[]], unreduced ["data"]> to <[["data"]], unreduced []> for "b" : tensor<8xf32>
    // CHECK: dist.all_gather %[[SPLIT]] axes ["data"] dim 0 for "c" : tensor<4xf32> -> tensor<8xf32>
    %3 = dist.reshard %2 from <[["data"]], unreduced []> to <[[]], unreduced []> for "c" : tensor<8xf32>
    // CHECK: dist.slice %{{.*}} axes ["data"] dim 0 for "d" : tensor<8xf32> -> tensor<4xf32>
    %4 = dist.reshard %1 from <[[]], unreduced []> to <[["data"]], unreduced []> for "d" : tensor<8xf32>
    // CHECK: dist.all_to_all %[[X]] axes ["data"] split 1 concat 0 for "e" : tensor<2x8xf32> -> tensor<4x4xf32>
    %5 = dist.reshard %x from <[["data"], []], unreduced []> to <[[], ["data"]], unreduced []> for "e" : tensor<4x8xf32>
    nn.return
  }
}

// -----

// What a rank computes depends on its number, and the program does not: random
// numbers, rows of a vocabulary and positions get the number as an operand.

// CHECK-LABEL: nn.model @parts
nn.model @parts family "gpt2" phase "pipe" attributes {
    strategy = #dist.strategy<{batch = {global = 2}, mesh = {data = 2, tensor = 2}}>, config = "{}", weights = {}} {
  dist.mesh @mesh [#dist.axis<"pipe" = 1>, #dist.axis<"data" = 2>, #dist.axis<"seq" = 1>, #dist.axis<"tensor" = 2>]
  // CHECK: nn.state @w role parameter : tensor<4x6xf32>
  // CHECK-SAME: whole = tensor<7x6xf32>
  nn.state @w role parameter : tensor<7x6xf32> {storage = #dist.sharding<[["tensor"], []], unreduced []>}
  nn.step @train(%ids: tensor<4x3xi32>, %rng: tensor<4xi32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<ids>, #nn.port<rng>], outputs = [],
      arg_shardings = [#dist.sharding<[["data"], []], unreduced []>, #dist.sharding<[[]], unreduced []>], result_shardings = []} {
    %w = nn.get @w : tensor<7x6xf32>
    // CHECK: %[[T:.*]] = dist.rank ["tensor"] : index
    // CHECK: %[[FIRST:.*]] = arith.muli %[[T]], %{{.*}} : index
    // CHECK: nn.embedding %{{.*}}[%{{.*}}] first %[[FIRST]] : (tensor<4x6xf32>, tensor<2x3xi32>, index) -> tensor<2x3x6xf32>
    %x = nn.embedding %w[%ids] {shardings = [#dist.sharding<[["data"], [], []], unreduced ["tensor"]>]} : (tensor<7x6xf32>, tensor<4x3xi32>) -> tensor<4x3x6xf32>
    // A table that begins elsewhere than at row 0 does so still.
    // CHECK: %[[C:.*]] = arith.constant -2 : index
    // CHECK: %[[PART:.*]] = arith.muli %{{.*}}, %{{.*}} : index
    // CHECK: %[[BEGIN:.*]] = arith.addi %[[PART]], %[[C]] : index
    // CHECK: nn.embedding %{{.*}}[%{{.*}}] first %[[BEGIN]] : (tensor<4x6xf32>, tensor<2x3xi32>, index) -> tensor<2x3x6xf32>
    %begin = arith.constant -2 : index
    %at = nn.embedding %w[%ids] first %begin {shardings = [#dist.sharding<[["data"], [], []], unreduced ["tensor"]>]} : (tensor<7x6xf32>, tensor<4x3xi32>, index) -> tensor<4x3x6xf32>
    %y = dist.reshard %x from <[["data"], [], []], unreduced ["tensor"]> to <[["data"], [], []], unreduced []> for "nn.dropout" : tensor<4x3x6xf32>
    %i = arith.constant 0 : index
    // CHECK: %[[D:.*]] = dist.rank ["data"] : index
    // CHECK: %[[ROW:.*]] = arith.addi %{{.*}}, %[[D]] : index
    // CHECK: nn.dropout %{{.*}} rng %{{.*}} layer %{{.*}} micro_batch %[[ROW]]
    %z = nn.dropout %y rng %rng layer %i micro_batch %i {p = 0.1 : f64, site = 3 : i32, shardings = [#dist.sharding<[["data"], [], []], unreduced []>]} : (tensor<4x3x6xf32>, tensor<4xi32>, index, index) -> tensor<4x3x6xf32>
    nn.return
  }
}

// -----

// A bucket that is split over replicas: equal parts of whole blocks of 64.

// CHECK-LABEL: nn.model @bucket
nn.model @bucket family "gpt2" phase "pipe" attributes {
    strategy = #dist.strategy<{batch = {global = 2}, mesh = {data = 2}}>, config = "{}", weights = {}} {
  dist.mesh @mesh [#dist.axis<"pipe" = 1>, #dist.axis<"data" = 2>, #dist.axis<"seq" = 1>, #dist.axis<"tensor" = 1>]
  nn.state @w role parameter : tensor<3x5xf32> {trainable}
  nn.state @b role parameter : tensor<100xf32> {trainable}
  // CHECK: nn.bucket @p [@w, @b] : tensor<128xf32>
  // CHECK-SAME: elements = 256
  nn.bucket @p [@w, @b] : tensor<256xf32> {storage = #dist.sharding<[["data"]], unreduced []>}
  nn.step @train() attributes {kind = #nn.program<train>, inputs = [], outputs = [], arg_shardings = [], result_shardings = []} {
    // CHECK: %[[P:.*]] = nn.get @p : tensor<128xf32>
    %p = nn.get @p : tensor<256xf32>
    // CHECK: %[[ALL:.*]] = dist.all_gather %[[P]] axes ["data"] dim 0 for "h.0" : tensor<128xf32> -> tensor<256xf32>
    %all = dist.reshard %p from <[["data"]], unreduced []> to <[[]], unreduced []> for "h.0" : tensor<256xf32>
    // CHECK: nn.unpack %[[ALL]] : (tensor<256xf32>) -> (tensor<3x5xf32>, tensor<100xf32>)
    %w, %b = nn.unpack %all {shardings = [#dist.sharding<[[], []], unreduced []>, #dist.sharding<[[]], unreduced []>]} : (tensor<256xf32>) -> (tensor<3x5xf32>, tensor<100xf32>)
    nn.return
  }
}

// -----

// A part along an inner dimension of what every rank holds lies in pieces, and
// so does a part of segments: it is copied.

// CHECK-LABEL: nn.model @inner
nn.model @inner family "gpt2" phase "pipe" attributes {
    strategy = #dist.strategy<{batch = {global = 2}, mesh = {data = 2}}>, config = "{}", weights = {}} {
  dist.mesh @mesh [#dist.axis<"pipe" = 1>, #dist.axis<"data" = 2>, #dist.axis<"seq" = 1>, #dist.axis<"tensor" = 1>]
  // CHECK: nn.step @train(%[[X:[^:]*]]: tensor<4x12xf32>
  nn.step @train(%x: tensor<4x12xf32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = [],
      arg_shardings = [#dist.sharding<[[], []], unreduced []>], result_shardings = []} {
    // CHECK: %[[R:.*]] = dist.rank ["data"] : index
    // CHECK: %[[FIRST:.*]] = arith.muli %[[R]], %{{.*}} : index
    // CHECK: nn.slice %[[X]] dim 1 first %[[FIRST]] : (tensor<4x12xf32>, index) -> tensor<4x6xf32>
    %0 = dist.reshard %x from <[[], []], unreduced []> to <[[], ["data"]], unreduced []> for "nn.map" : tensor<4x12xf32>
    // CHECK: %[[A:.*]] = nn.slice %[[X]] dim 1 first %{{.*}} : (tensor<4x12xf32>, index) -> tensor<4x4xf32>
    // CHECK: %[[B:.*]] = nn.slice %[[X]] dim 1 first %{{.*}} {offset = 8 : i64} : (tensor<4x12xf32>, index) -> tensor<4x2xf32>
    // CHECK: nn.concat %[[A]], %[[B]] dim 1 : (tensor<4x4xf32>, tensor<4x2xf32>) -> tensor<4x6xf32>
    %1 = dist.reshard %x from <[[], []], unreduced []> to <[[], ["data"]], unreduced []> for "nn.attention" {segments = array<i64: 8, 4>} : tensor<4x12xf32>
    nn.return
  }
}

// -----

// Random numbers of a tensor that is split along two dimensions behind its rows.

// CHECK-LABEL: nn.model @masks
nn.model @masks family "gpt2" phase "pipe" attributes {
    strategy = #dist.strategy<{batch = {global = 2}, mesh = {data = 2, seq = 2, tensor = 2}}>, config = "{}", weights = {}} {
  dist.mesh @mesh [#dist.axis<"pipe" = 1>, #dist.axis<"data" = 2>, #dist.axis<"seq" = 2>, #dist.axis<"tensor" = 2>]
  nn.step @train(%x: tensor<4x6x8xf32>, %rng: tensor<4xi32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">, #nn.port<rng>], outputs = [],
      arg_shardings = [#dist.sharding<[["data"], ["seq"], ["tensor"]], unreduced []>, #dist.sharding<[[]], unreduced []>], result_shardings = []} {
    %i = arith.constant 0 : index
    // CHECK: %[[S:.*]] = dist.rank ["seq"] : index
    // CHECK: %[[T:.*]] = dist.rank ["tensor"] : index
    // CHECK: nn.dropout %{{.*}} part %[[S]], %[[T]] {inner = array<i64: 12, 4>, p = 1.000000e-01 : f64, parts = array<i64: 2, 2>
    %z = nn.dropout %x rng %rng layer %i micro_batch %i {p = 0.1 : f64, site = 3 : i32, shardings = [#dist.sharding<[["data"], ["seq"], ["tensor"]], unreduced []>]} : (tensor<4x6x8xf32>, tensor<4xi32>, index, index) -> tensor<4x6x8xf32>
    nn.return
  }
}

// -----

// Keys and values go around the ranks that split the sequence, and their
// gradients with them.

// CHECK-LABEL: nn.model @ring
nn.model @ring family "gpt2" phase "pipe" attributes {
    strategy = #dist.strategy<{batch = {global = 1}, mesh = {seq = 2}, context = ring}>, config = "{}", weights = {}} {
  dist.mesh @mesh [#dist.axis<"pipe" = 1>, #dist.axis<"data" = 1>, #dist.axis<"seq" = 2>, #dist.axis<"tensor" = 1>]
  nn.step @train(%x: tensor<1x4x24xf32>, %g: tensor<1x4x8xf32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">, #nn.port<value, "g">], outputs = [],
      arg_shardings = [#dist.sharding<[[], ["seq"], []], unreduced []>, #dist.sharding<[[], ["seq"], []], unreduced []>], result_shardings = []} {
    // CHECK: %[[R:.*]] = dist.rank ["seq"] : index
    // CHECK: %[[Q:.*]] = nn.slice %[[X:.*]] dim 2 : (tensor<1x2x24xf32>) -> tensor<1x2x8xf32>
    // CHECK: %[[K:.*]] = nn.slice %[[X]] dim 2 {offset = 8 : i64}
    // CHECK: %[[V:.*]] = nn.slice %[[X]] dim 2 {offset = 16 : i64}
    // CHECK: %[[NEXTK:.*]] = dist.rotate %[[K]] axes ["seq"] for "nn.attention" {pending}
    // CHECK: %[[NEXTV:.*]] = dist.rotate %[[V]] axes ["seq"] for "nn.attention" {pending}
    // CHECK: %[[C0:.*]] = arith.constant 0 : index
    // CHECK: %[[Y0:.*]], %[[S0:.*]] = nn.attention %[[Q]], %[[K]], %[[V]] sequence_shard %[[R]] ring_step %[[C0]] {heads = #nn.heads<2, scale = 5.000000e-01>, mask = #nn.mask<causal>, placement = #nn.placement<sequence_shards = 2>}
    // CHECK: %[[K1:.*]] = dist.wait %[[NEXTK]]
    // CHECK: %[[V1:.*]] = dist.wait %[[NEXTV]]
    // CHECK: %[[Y1:.*]], %[[S1:.*]] = nn.attention %[[Q]], %[[K1]], %[[V1]] sequence_shard %[[R]] ring_step
    // CHECK: %[[Y:.*]] = nn.attention_join %[[Y0]], %[[S0]], %[[Y1]], %[[S1]]
    // CHECK: %[[S:.*]] = nn.log_add_exp %[[S0]], %[[S1]]
    %y, %lse = nn.attention %x {heads = #nn.heads<2, scale = 0.5>, mask = #nn.mask<causal>, placement = #nn.placement<ring = true>,
        shardings = [#dist.sharding<[[], ["seq"], []], unreduced []>, #dist.sharding<[[], [], ["seq"]], unreduced []>]}
        : (tensor<1x4x24xf32>) -> (tensor<1x4x8xf32>, tensor<1x2x4xf32>)
    // CHECK: %[[D0:.*]]:3 = nn.attention_grad {{.*}} forward %[[Y]] lse %[[S]] sequence_shard
    // CHECK: %[[DK:.*]] = dist.rotate %[[D0]]#1 axes ["seq"] for "nn.attention_grad" {pending}
    // CHECK: %[[D1:.*]]:3 = nn.attention_grad {{.*}} forward %[[Y]] lse %[[S]] sequence_shard
    // CHECK: %[[DK1:.*]] = dist.wait %[[DK]]
    // CHECK: %[[DQ:.*]] = nn.add %[[D0]]#0, %[[D1]]#0
    // CHECK: %[[SUM:.*]] = nn.add %[[DK1]], %[[D1]]#1
    // CHECK: %[[HOME:.*]] = dist.rotate %[[SUM]]
    // CHECK: %[[DKEYS:.*]] = dist.wait %[[HOME]]
    // CHECK: nn.concat %[[DQ]], %[[DKEYS]], %{{.*}} dim 2 : (tensor<1x2x8xf32>, tensor<1x2x8xf32>, tensor<1x2x8xf32>) -> tensor<1x2x24xf32>
    %d = nn.attention_grad %g, %x forward %y lse %lse {heads = #nn.heads<2, scale = 0.5>, mask = #nn.mask<causal>, placement = #nn.placement<ring = true>,
        shardings = [#dist.sharding<[[], ["seq"], []], unreduced []>]}
        : (tensor<1x4x8xf32>, tensor<1x4x24xf32>, tensor<1x4x8xf32>, tensor<1x2x4xf32>) -> tensor<1x4x24xf32>
    nn.return
  }
}

// -----

// Lengths are of the whole sequence: all places have them, and the parts of the
// heads.

// CHECK-LABEL: nn.model @padded
nn.model @padded family "own" phase "pipe" attributes {
    strategy = #dist.strategy<{batch = {global = 2}, mesh = {data = 2, seq = 2, tensor = 2}, context = ring}>, config = "{}", weights = {}} {
  dist.mesh @mesh [#dist.axis<"pipe" = 1>, #dist.axis<"data" = 2>, #dist.axis<"seq" = 2>, #dist.axis<"tensor" = 2>]
  // CHECK: nn.step @train(%{{.*}}: tensor<1x2x8xf32>, %[[N:.*]]: tensor<1xi32>)
  nn.step @train(%x: tensor<2x4x16xf32>, %n: tensor<2xi32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">, #nn.port<lengths>], outputs = [],
      arg_shardings = [#dist.sharding<[["data"], ["seq"], ["tensor"]], unreduced []>, #dist.sharding<[["data"]], unreduced []>], result_shardings = []} {
    // CHECK: %[[Y0:.*]], %[[S0:.*]] = nn.attention {{.*}} lengths %[[N]] sequence_shard %{{.*}} ring_step %{{.*}} {heads = #nn.heads<1, scale = 5.000000e-01>, mask = #nn.mask<full>, placement = #nn.placement<sequence_shards = 2>} : (tensor<1x2x8xf32>, tensor<1x2x8xf32>, tensor<1x2x8xf32>, tensor<1xi32>, index, index)
    // CHECK: nn.attention {{.*}} lengths %[[N]] sequence_shard
    %y, %lse = nn.attention %x, %x, %x lengths %n {heads = #nn.heads<2, scale = 0.5>, mask = #nn.mask<full>, placement = #nn.placement<ring = true>,
        shardings = [#dist.sharding<[["data"], ["seq"], ["tensor"]], unreduced []>, #dist.sharding<[["data"], ["tensor"], ["seq"]], unreduced []>]}
        : (tensor<2x4x16xf32>, tensor<2x4x16xf32>, tensor<2x4x16xf32>, tensor<2xi32>) -> (tensor<2x4x16xf32>, tensor<2x2x4xf32>)
    // CHECK: nn.attention_grad {{.*}} lengths %[[N]] sequence_shard
    // CHECK: nn.attention_grad {{.*}} lengths %[[N]] sequence_shard
    %d:3 = nn.attention_grad %y, %x, %x, %x forward %y lse %lse lengths %n {heads = #nn.heads<2, scale = 0.5>, mask = #nn.mask<full>, placement = #nn.placement<ring = true>,
        shardings = [#dist.sharding<[["data"], ["seq"], ["tensor"]], unreduced []>, #dist.sharding<[["data"], ["seq"], ["tensor"]], unreduced []>, #dist.sharding<[["data"], ["seq"], ["tensor"]], unreduced []>]}
        : (tensor<2x4x16xf32>, tensor<2x4x16xf32>, tensor<2x4x16xf32>, tensor<2x4x16xf32>, tensor<2x4x16xf32>, tensor<2x2x4xf32>, tensor<2xi32>) -> (tensor<2x4x16xf32>, tensor<2x4x16xf32>, tensor<2x4x16xf32>)
    nn.return
  }
}

// -----

// A rank keeps its part of a value, of each micro-batch; the program says where
// that lies in the whole. Of heads that are packed, each segment is split.

// CHECK-LABEL: nn.model @kept
nn.model @kept family "gpt2" phase "pipe" attributes {
    strategy = #dist.strategy<{batch = {global = 8, micro = 2, accumulate = 2}, mesh = {data = 2, tensor = 2}}>, config = "{}", weights = {}} {
  dist.mesh @mesh [#dist.axis<"pipe" = 1>, #dist.axis<"data" = 2>, #dist.axis<"seq" = 1>, #dist.axis<"tensor" = 2>]
  // CHECK: nn.func @layer(%{{.*}}: tensor<2x4x12xf32>) -> tensor<2x4x12xf32>
  nn.func @layer(%qkv: tensor<4x4x24xf32>) -> tensor<4x4x24xf32> attributes {
      arg_shardings = [#dist.sharding<[["data"], [], ["tensor"]], unreduced []>],
      result_shardings = [#dist.sharding<[["data"], [], ["tensor"]], unreduced []>]} {
    %0, %1 = nn.attention %qkv {heads = #nn.heads<4, kv = 2, scale = 1.0>, mask = #nn.mask<causal>, shardings = [#dist.sharding<[["data"], [], ["tensor"]], unreduced []>, #dist.sharding<[["data"], ["tensor"], []], unreduced []>]} : (tensor<4x4x24xf32>) -> (tensor<4x4x12xf32>, tensor<4x4x4xf32>)
    nn.return %qkv : tensor<4x4x24xf32>
  }
  // CHECK: nn.step @train
  // CHECK-SAME: value.h.0.attn.c_attn = {segments = array<i64: 12, 6, 6>, sharding = #dist.sharding<{{\[\[}}], ["data"], [], ["tensor"]], unreduced []>, whole = tensor<2x4x4x24xf32>}
  // CHECK-SAME: x = {
  nn.step @train(%x: tensor<2x4x4x24xf32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = [],
      arg_shardings = [#dist.sharding<[[], ["data"], [], ["tensor"]], unreduced []>], result_shardings = []} {
    nn.micro_batches 2 {
    ^bb0(%i: index):
      %0 = nn.micro_batch %x[%i] : tensor<2x4x4x24xf32> -> tensor<4x4x24xf32>
      %1 = nn.call @layer(%0) path "h.0" : (tensor<4x4x24xf32>) -> tensor<4x4x24xf32>
      // CHECK: nn.keep %{{.*}} as "h.0.attn.c_attn" : tensor<2x4x12xf32>
      nn.keep %1 as "h.0.attn.c_attn" : tensor<4x4x24xf32>
      nn.return
    }
    nn.return
  }
}
