// RUN: heddle-opt %s --split-input-file --shard-make-mesh --shard-split-parameters --shard-propagate --shard-insert-reshards --shard-verify | FileCheck %s
// RUN: sed 's/mesh = {tensor = 2}/mesh = {tensor = 2}, sequence_parallel = true/' %s | heddle-opt --split-input-file --shard-make-mesh --shard-split-parameters --shard-propagate --shard-insert-reshards --shard-verify | FileCheck %s --check-prefix SHARED

// A pair of products: columns, then rows, and one sum behind the pair, to which
// the bias is added once. Tables of tokens are split by rows, those of
// positions are whole.

// CHECK: nn.state @wte role parameter : tensor<8x4xf32>
// CHECK-SAME: storage = #dist.sharding<{{\[\[}}"tensor"], []], unreduced []>
// CHECK: nn.state @fc role parameter : tensor<4x16xf32>
// CHECK-SAME: storage = #dist.sharding<{{\[\[}}], ["tensor"]], unreduced []>
// CHECK: nn.state @fc.bias role parameter : tensor<16xf32>
// CHECK-SAME: storage = #dist.sharding<{{\[\[}}"tensor"]], unreduced []>
// CHECK: nn.state @proj role parameter : tensor<16x4xf32>
// CHECK-SAME: storage = #dist.sharding<{{\[\[}}"tensor"], []], unreduced []>
// CHECK: nn.state @proj.bias role parameter : tensor<4xf32> {trainable}
// CHECK: nn.func @mlp
// CHECK: %[[IN:.*]] = nn.linear %{{.*}} bias %{{.*}} {shardings = [#dist.sharding<{{\[\[}}], [], ["tensor"]], unreduced []>]}
// CHECK: %[[ACT:.*]] = nn.map relu(%[[IN]])
// CHECK: %[[OUT:.*]] = nn.linear %[[ACT]], %{{[^ ]*}} {shardings = [#dist.sharding<{{\[\[}}], [], []], unreduced ["tensor"]>]}
// CHECK: %[[SUM:.*]] = dist.reshard %[[OUT]] from <{{.*}}unreduced ["tensor"]> to <{{.*}}unreduced []> for "nn.add_bias"
// CHECK: nn.add_bias %[[SUM]], %{{.*}}
// CHECK: nn.step @train
// CHECK: %[[E:.*]] = nn.embedding %{{.*}} {shardings = [#dist.sharding<{{\[\[}}], [], []], unreduced ["tensor"]>]}

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{mesh = {tensor = 2}}>, config = "{}", weights = {}} {
  nn.state @wte role parameter : tensor<8x4xf32> {trainable}
  nn.state @fc role parameter : tensor<4x16xf32> {trainable}
  nn.state @fc.bias role parameter : tensor<16xf32> {trainable}
  nn.state @proj role parameter : tensor<16x4xf32> {trainable}
  nn.state @proj.bias role parameter : tensor<4xf32> {trainable}
  nn.func @mlp(%x: tensor<2x3x4xf32>, %fc: tensor<4x16xf32>, %fcb: tensor<16xf32>, %proj: tensor<16x4xf32>, %projb: tensor<4xf32>) -> tensor<2x3x4xf32> {
    %0 = nn.linear %x, %fc bias %fcb : (tensor<2x3x4xf32>, tensor<4x16xf32>, tensor<16xf32>) -> tensor<2x3x16xf32>
    %1 = nn.map relu(%0) : tensor<2x3x16xf32>
    %2 = nn.linear %1, %proj bias %projb : (tensor<2x3x16xf32>, tensor<16x4xf32>, tensor<4xf32>) -> tensor<2x3x4xf32>
    nn.return %2 : tensor<2x3x4xf32>
  }
  nn.step @train(%ids: tensor<1x2x3xi32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<ids>], outputs = []} {
    nn.micro_batches 1 {
    ^bb0(%i: index):
      %id = nn.micro_batch %ids[%i] : tensor<1x2x3xi32> -> tensor<2x3xi32>
      %wte = nn.get @wte : tensor<8x4xf32>
      %x = nn.embedding %wte[%id] : (tensor<8x4xf32>, tensor<2x3xi32>) -> tensor<2x3x4xf32>
      %fc = nn.get @fc : tensor<4x16xf32>
      %fcb = nn.get @fc.bias : tensor<16xf32>
      %proj = nn.get @proj : tensor<16x4xf32>
      %projb = nn.get @proj.bias : tensor<4xf32>
      %y = nn.call @mlp(%x, %fc, %fcb, %proj, %projb) path "h.0" : (tensor<2x3x4xf32>, tensor<4x16xf32>, tensor<16xf32>, tensor<16x4xf32>, tensor<4xf32>) -> tensor<2x3x4xf32>
      nn.return
    }
    nn.return
  }
}

// -----

// Weights that are stored [out, in] are split in the other dimension. The sum of
// partial sums is one too, until the boundary of the layer; where ranks share the
// tokens out each keeps its tokens of the sum.

// CHECK-LABEL: nn.model @stored
// CHECK: nn.state @a role parameter : tensor<16x4xf32>
// CHECK-SAME: storage = #dist.sharding<{{\[\[}}"tensor"], []], unreduced []>
// CHECK: nn.state @c role parameter : tensor<4x16xf32>
// CHECK-SAME: storage = #dist.sharding<{{\[\[}}], ["tensor"]], unreduced []>
// CHECK: nn.func @layer
// CHECK-NOT: dist.reshard
// CHECK: %[[SUM:.*]] = nn.add %{{.*}} {shardings = [#dist.sharding<{{\[\[}}], [], []], unreduced ["tensor"]>]}
// CHECK: %[[WHOLE:.*]] = dist.reshard %[[SUM]] from <{{.*}}unreduced ["tensor"]> to <{{\[\[}}], [], []], unreduced []> for "nn.return"
// CHECK: nn.return %[[WHOLE]]
// CHECK: %[[E:.*]] = nn.embedding
// CHECK: %[[X:.*]] = dist.reshard %[[E]] from <{{.*}}unreduced ["tensor"]> to <{{\[\[}}], [], []], unreduced []> for "nn.call"
// CHECK: nn.call @layer(%[[X]],

// SHARED-LABEL: nn.model @stored
// SHARED: dist.reshard %{{.*}} from <{{.*}}unreduced ["tensor"]> to <{{\[\[}}], ["tensor"], []], unreduced []> for "nn.return"
// SHARED: dist.reshard %{{.*}} from <{{.*}}unreduced ["tensor"]> to <{{\[\[}}], ["tensor"], []], unreduced []> for "nn.call"

nn.model @stored family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{mesh = {tensor = 2}}>, config = "{}", weights = {}} {
  nn.state @table role parameter : tensor<8x4xf32> {trainable}
  nn.state @a role parameter : tensor<16x4xf32> {trainable}
  nn.state @b role parameter : tensor<16x4xf32> {trainable}
  nn.state @c role parameter : tensor<4x16xf32> {trainable}
  nn.state @d role parameter : tensor<4x16xf32> {trainable}
  nn.func @layer(%x: tensor<2x3x4xf32>, %a: tensor<16x4xf32>, %b: tensor<16x4xf32>, %c: tensor<4x16xf32>, %d: tensor<4x16xf32>) -> tensor<2x3x4xf32> {
    %0 = nn.linear %x, %a {transposed} : (tensor<2x3x4xf32>, tensor<16x4xf32>) -> tensor<2x3x16xf32>
    %1 = nn.linear %x, %b {transposed} : (tensor<2x3x4xf32>, tensor<16x4xf32>) -> tensor<2x3x16xf32>
    %2 = nn.map silu(%0) : tensor<2x3x16xf32>
    %3 = nn.map silu(%1) : tensor<2x3x16xf32>
    %4 = nn.linear %2, %c {transposed} : (tensor<2x3x16xf32>, tensor<4x16xf32>) -> tensor<2x3x4xf32>
    %5 = nn.linear %3, %d {transposed} : (tensor<2x3x16xf32>, tensor<4x16xf32>) -> tensor<2x3x4xf32>
    %6 = nn.add %4, %5 : tensor<2x3x4xf32>
    nn.return %6 : tensor<2x3x4xf32>
  }
  nn.step @train(%ids: tensor<1x2x3xi32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<ids>], outputs = []} {
    nn.micro_batches 1 {
    ^bb0(%i: index):
      %id = nn.micro_batch %ids[%i] : tensor<1x2x3xi32> -> tensor<2x3xi32>
      %table = nn.get @table : tensor<8x4xf32>
      %x = nn.embedding %table[%id] : (tensor<8x4xf32>, tensor<2x3xi32>) -> tensor<2x3x4xf32>
      %a = nn.get @a : tensor<16x4xf32>
      %b = nn.get @b : tensor<16x4xf32>
      %c = nn.get @c : tensor<4x16xf32>
      %d = nn.get @d : tensor<4x16xf32>
      %y = nn.call @layer(%x, %a, %b, %c, %d) path "h.0" : (tensor<2x3x4xf32>, tensor<16x4xf32>, tensor<16x4xf32>, tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<2x3x4xf32>
      nn.return
    }
    nn.return
  }
}

// -----

// What is no partial sum is added to the whole of one.

// CHECK-LABEL: nn.model @whole
nn.model @whole family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{mesh = {tensor = 2}}>, config = "{}", weights = {}} {
  nn.state @wte role parameter : tensor<8x4xf32> {trainable}
  nn.step @train(%ids: tensor<2x3xi32>, %y: tensor<2x3x4xf32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<ids>, #nn.port<value, "y">], outputs = []} {
    %wte = nn.get @wte : tensor<8x4xf32>
    %x = nn.embedding %wte[%ids] : (tensor<8x4xf32>, tensor<2x3xi32>) -> tensor<2x3x4xf32>
    // CHECK: %[[WHOLE:.*]] = dist.reshard %{{.*}} from <{{.*}}unreduced ["tensor"]> to <{{\[\[}}], [], []], unreduced []> for "nn.add"
    // CHECK: nn.add %[[WHOLE]], %{{.*}} {shardings = [#dist.sharding<{{\[\[}}], [], []], unreduced []>]}
    %0 = nn.add %x, %y : tensor<2x3x4xf32>
    nn.return
  }
}

// -----

// A table that has fewer rows than there are ranks is whole on each. The bias of
// the head is split as its weight is.

// CHECK-LABEL: nn.model @head
// CHECK: nn.state @kinds role parameter : tensor<1x4xf32> {trainable}
// CHECK: nn.state @wte role parameter : tensor<8x4xf32>
// CHECK-SAME: storage = #dist.sharding<{{\[\[}}"tensor"], []], unreduced []>
// CHECK: nn.state @bias role parameter : tensor<8xf32>
// CHECK-SAME: storage = #dist.sharding<{{\[\[}}"tensor"]], unreduced []>
// CHECK: nn.linear {{.*}} bias %{{.*}} {shardings = [#dist.sharding<{{\[\[}}], [], ["tensor"]], unreduced []>], transposed}
// CHECK: nn.embedding_grad {{.*}} {shardings = [#dist.sharding<{{\[\[}}], []], unreduced []>]}
nn.model @head family "bert" phase "train" attributes {
    strategy = #dist.strategy<{mesh = {tensor = 2}}>, config = "{}", weights = {}} {
  nn.state @kinds role parameter : tensor<1x4xf32> {trainable}
  nn.state @wte role parameter : tensor<8x4xf32> {trainable}
  nn.state @bias role parameter : tensor<8xf32> {trainable}
  nn.step @train(%segments: tensor<2x3xi32>, %labels: tensor<2x3xi32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<segments>, #nn.port<labels>], outputs = []} {
    %kinds = nn.get @kinds : tensor<1x4xf32>
    %x = nn.embedding %kinds[%segments] : (tensor<1x4xf32>, tensor<2x3xi32>) -> tensor<2x3x4xf32>
    %wte = nn.get @wte : tensor<8x4xf32>
    %bias = nn.get @bias : tensor<8xf32>
    %logits = nn.linear %x, %wte bias %bias {transposed} : (tensor<2x3x4xf32>, tensor<8x4xf32>, tensor<8xf32>) -> tensor<2x3x8xf32>
    %losses, %lse = nn.cross_entropy %logits, %labels : (tensor<2x3x8xf32>, tensor<2x3xi32>) -> (tensor<2x3xf32>, tensor<2x3xf32>)
    %grad = nn.embedding_grad %x[%segments] : (tensor<2x3x4xf32>, tensor<2x3xi32>) -> tensor<1x4xf32>
    nn.return
  }
}

// -----

// Where nothing trains, the head's logits are what a step gives.

// CHECK: nn.state @head role parameter : tensor<8x4xf32>
// CHECK-SAME: storage = #dist.sharding<{{\[\[}}"tensor"], []], unreduced []>
// CHECK: nn.step @decode
// CHECK: %[[LOGITS:.*]] = nn.linear %{{.*}} {shardings = [#dist.sharding<{{\[\[}}], [], ["tensor"]], unreduced []>], transposed}
// CHECK: dist.reshard %[[LOGITS]] from <{{.*}}> to <{{\[\[}}], [], []], unreduced []>
nn.model @serves family "llama" phase "train" attributes {
    strategy = #dist.strategy<{mesh = {tensor = 2}}>, config = "{}", weights = {}} {
  nn.state @head role parameter : tensor<8x4xf32>
  nn.step @decode(%x: tensor<2x3x4xf32>) -> tensor<2x3x8xf32> attributes {kind = #nn.program<decode>, inputs = [#nn.port<value, "x">], outputs = [#nn.port<value, "logits">]} {
    %w = nn.get @head : tensor<8x4xf32>
    %y = nn.linear %x, %w {transposed} : (tensor<2x3x4xf32>, tensor<8x4xf32>) -> tensor<2x3x8xf32>
    nn.return %y : tensor<2x3x8xf32>
  }
}
