// RUN: heddle-opt %s --split-input-file --shard-make-mesh --shard-propagate --shard-insert-reshards --shard-verify | FileCheck %s

// Data parallelism: the rows of the inputs are split, and with them every
// activation; parameters are whole; a weight's gradient sums over rows, so it
// is a partial sum until a reshard, which says who asked for it.

// CHECK-LABEL: nn.model @data
nn.model @data family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{batch = {global = 2}, mesh = {data = 2}}>,
    config = "{}", weights = {}} {
  // CHECK: dist.mesh @mesh [#dist.axis<"pipe" = 1>, #dist.axis<"data" = 2>, #dist.axis<"seq" = 1>, #dist.axis<"tensor" = 1>]
  nn.state @w role parameter : tensor<8x4xf32> {trainable}
  nn.state @w.grad role gradient : tensor<8x4xf32> {parameter = "w"}
  nn.state @loss role accumulator : tensor<f32>
  // The first call decides a layer's boundary.
  // CHECK: nn.func @layer
  // CHECK-SAME: arg_shardings = [#dist.sharding<{{\[\[}}"data"], [], []], unreduced []>, #dist.sharding<{{\[\[}}], []], unreduced []>]
  // CHECK-SAME: result_shardings = [#dist.sharding<{{\[\[}}"data"], [], []], unreduced []>]
  nn.func @layer(%x: tensor<2x3x4xf32>, %w: tensor<8x4xf32>) -> tensor<2x3x8xf32> {
    // CHECK: nn.linear {{.*}} {shardings = [#dist.sharding<{{\[\[}}"data"], [], []], unreduced []>], transposed}
    %0 = nn.linear %x, %w {transposed} : (tensor<2x3x4xf32>, tensor<8x4xf32>) -> tensor<2x3x8xf32>
    nn.return %0 : tensor<2x3x8xf32>
  }
  // CHECK: nn.step @train
  // CHECK-SAME: arg_shardings = [#dist.sharding<{{\[\[}}], ["data"], []], unreduced []>]
  // CHECK-SAME: result_shardings = [#dist.sharding<[], unreduced []>]
  nn.step @train(%ids: tensor<1x2x3xi32>) -> tensor<f32> attributes {
      kind = #nn.program<train>, inputs = [#nn.port<ids>], outputs = [#nn.port<loss>]} {
    nn.micro_batches 1 {
    ^bb0(%i: index):
      %id = nn.micro_batch %ids[%i] : tensor<1x2x3xi32> -> tensor<2x3xi32>
      %w = nn.get @w : tensor<8x4xf32>
      // CHECK: nn.embedding {{.*}} {shardings = [#dist.sharding<{{\[\[}}"data"], [], []], unreduced []>]}
      %x = nn.embedding %w[%id] : (tensor<8x4xf32>, tensor<2x3xi32>) -> tensor<2x3x4xf32>
      %y = nn.call @layer(%x, %w) path "h.0" : (tensor<2x3x4xf32>, tensor<8x4xf32>) -> tensor<2x3x8xf32>
      // CHECK: %[[LOSSES:[^ ,]*]], %{{.*}} = nn.cross_entropy {{.*}} {shardings = [#dist.sharding<{{\[\[}}"data"], []], unreduced []>, #dist.sharding<{{\[\[}}"data"], []], unreduced []>]}
      %losses, %lse = nn.cross_entropy %y, %id : (tensor<2x3x8xf32>, tensor<2x3xi32>) -> (tensor<2x3xf32>, tensor<2x3xf32>)
      %g = nn.cross_entropy_grad %y, %id, %lse, %losses : (tensor<2x3x8xf32>, tensor<2x3xi32>, tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3x8xf32>
      // CHECK: %[[PART:.*]] = nn.linear_grad_weight {{.*}} {shardings = [#dist.sharding<{{\[\[}}], []], unreduced ["data"]>], transposed}
      %dw = nn.linear_grad_weight %x, %g {transposed} : (tensor<2x3x4xf32>, tensor<2x3x8xf32>) -> tensor<8x4xf32>
      // CHECK: %[[WHOLE:.*]] = dist.reshard %[[PART]] from <{{\[\[}}], []], unreduced ["data"]> to <{{\[\[}}], []], unreduced []> for "nn.set" : tensor<8x4xf32>
      // CHECK: nn.set @w.grad, %[[WHOLE]]
      nn.set @w.grad, %dw : tensor<8x4xf32>
      // CHECK: %[[SUM:.*]] = nn.sum %[[LOSSES]] {shardings = [#dist.sharding<[], unreduced ["data"]>]}
      %sum = nn.sum %losses : (tensor<2x3xf32>) -> tensor<f32>
      // CHECK: dist.reshard %[[SUM]] from <[], unreduced ["data"]> to <[], unreduced []> for "nn.set" : tensor<f32>
      nn.set @loss, %sum : tensor<f32>
      nn.return
    }
    %loss = nn.get @loss : tensor<f32>
    nn.return %loss : tensor<f32>
  }
}

// -----

// What is added to a partial sum would be added once on every rank: the sum is
// made without it.

// CHECK-LABEL: nn.model @sums
nn.model @sums family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{batch = {global = 2}, mesh = {data = 2}}>,
    config = "{}", weights = {}} {
  nn.state @s role accumulator : tensor<4xf32>
  nn.step @train(%x: tensor<2x4xf32>) attributes {
      kind = #nn.program<train>, inputs = [#nn.port<label_weights, "x">], outputs = []} {
    %zero = nn.fill 0.0 : () -> tensor<4xf32>
    nn.set @s, %zero : tensor<4xf32>
    %old = nn.get @s : tensor<4xf32>
    // CHECK: %[[PART:.*]] = nn.sum_rows %{{[^ ]*}} {shardings = [#dist.sharding<{{\[\[}}]], unreduced ["data"]>]} : (tensor<2x4xf32>) -> tensor<4xf32>
    // CHECK: %[[WHOLE:.*]] = dist.reshard %[[PART]] from <{{\[\[}}]], unreduced ["data"]> to <{{\[\[}}]], unreduced []> for "nn.add" : tensor<4xf32>
    // CHECK: %[[NEW:.*]] = nn.add %[[WHOLE]], %{{.*}} {shardings = [#dist.sharding<{{\[\[}}]], unreduced []>]}
    // CHECK: nn.set @s, %[[NEW]]
    %new = nn.sum_rows %x init %old : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<4xf32>
    nn.set @s, %new : tensor<4xf32>
    nn.return
  }
}

// -----

// One rank: every sharding is closed and whole, and nothing moves.

// CHECK-LABEL: nn.model @one
nn.model @one family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{batch = {global = 2, micro = 2}}>,
    config = "{}", weights = {}} {
  // CHECK-NOT: "data"]
  // CHECK-NOT: dist.reshard
  nn.step @eval(%x: tensor<2x4xf32>) -> tensor<4xf32> attributes {
      kind = #nn.program<eval>, inputs = [#nn.port<label_weights, "x">], outputs = [#nn.port<value, "y">]} {
    // CHECK: nn.sum_rows %{{[^ ]*}} {shardings = [#dist.sharding<{{\[\[}}]], unreduced []>]}
    %y = nn.sum_rows %x : (tensor<2x4xf32>) -> tensor<4xf32>
    nn.return %y : tensor<4xf32>
  }
}

// -----

// What is kept stays split: every rank keeps its part. A partial sum is made
// whole.

// CHECK-LABEL: nn.model @kept
nn.model @kept family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{batch = {global = 2}, mesh = {data = 2}}>,
    config = "{}", weights = {}} {
  nn.step @eval(%x: tensor<2x4xf32>) attributes {
      kind = #nn.program<eval>, inputs = [#nn.port<label_weights, "x">], outputs = []} {
    // CHECK: %[[X:.*]] = nn.map relu(
    %0 = nn.map relu(%x) : tensor<2x4xf32>
    // CHECK-NEXT: nn.keep %[[X]] as "x"
    nn.keep %0 as "x" : tensor<2x4xf32>
    // CHECK: %[[WHOLE:.*]] = dist.reshard %{{.*}} from <{{\[\[}}]], unreduced ["data"]> to <{{\[\[}}]], unreduced []> for "nn.keep"
    // CHECK-NEXT: nn.keep %[[WHOLE]] as "y"
    %1 = nn.sum_rows %0 : (tensor<2x4xf32>) -> tensor<4xf32>
    nn.keep %1 as "y" : tensor<4xf32>
    nn.return
  }
}

// -----

// A sum takes the axes of whichever operand is split further: nothing is
// gathered for it, and the other operand is cut.

// CHECK-LABEL: nn.model @further
nn.model @further family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{batch = {global = 2, micro = 2}, mesh = {seq = 2, tensor = 2}, sequence_parallel = true}>,
    config = "{}", weights = {}} {
  nn.state @w role parameter : tensor<8x4xf32>
  nn.step @train(%ids: tensor<2x8xi32>) attributes {
      kind = #nn.program<train>, inputs = [#nn.port<ids>], outputs = []} {
    %w = nn.get @w : tensor<8x4xf32>
    // CHECK: %[[X:.*]] = nn.embedding %{{.*}} {shardings = [#dist.sharding<{{\[\[}}], ["seq"], []], unreduced []>]}
    %x = nn.embedding %w[%ids] : (tensor<8x4xf32>, tensor<2x8xi32>) -> tensor<2x8x4xf32>
    %p = nn.positions : () -> tensor<2x8xi32>
    // CHECK: %[[Y:.*]] = nn.embedding %{{.*}} {shardings = [#dist.sharding<{{\[\[}}], ["seq", "tensor"], []], unreduced []>]}
    %y = nn.embedding %w[%p] : (tensor<8x4xf32>, tensor<2x8xi32>) -> tensor<2x8x4xf32>
    // CHECK: %[[PART:.*]] = dist.reshard %[[X]] from <{{\[\[}}], ["seq"], []], unreduced []> to <{{\[\[}}], ["seq", "tensor"], []], unreduced []> for "nn.add"
    // CHECK: nn.add %[[PART]], %[[Y]]
    // CHECK-NOT: dist.reshard
    %0 = nn.add %x, %y : tensor<2x8x4xf32>
    // CHECK: nn.add %[[Y]], %{{.*}}
    // CHECK-NOT: dist.reshard
    %1 = nn.add %y, %x : tensor<2x8x4xf32>
    nn.return
  }
}

// -----

// What is linear in a partial sum is one, too: gradients of what a weight is
// computed of are added up with the others.

// CHECK-LABEL: nn.model @linear
nn.model @linear family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{batch = {global = 2}, mesh = {data = 2}}>,
    config = "{}", weights = {}} {
  nn.state @a role parameter : tensor<4x4xf32> {trainable}
  nn.state @a.grad role gradient : tensor<4x4xf32> {parameter = "a", storage = #dist.sharding<[[], []], unreduced ["data"]>}
  nn.step @train(%x: tensor<2x3x4xf32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<label_weights, "x">], outputs = []} {
    %a = nn.get @a : tensor<4x4xf32>
    // CHECK: nn.linear_grad_weight {{.*}}unreduced ["data"]
    %g = nn.linear_grad_weight %x, %x : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<4x4xf32>
    // CHECK-NOT: dist.reshard
    // CHECK: nn.mul {{.*}}unreduced ["data"]
    %d = nn.mul %a, %g : tensor<4x4xf32>
    // CHECK-NOT: dist.reshard
    nn.set @a.grad, %d : tensor<4x4xf32>
    nn.return
  }
}

// -----

// A tensor of one value is made in parts, as its reader wants it, also where
// that is in a layer.

// CHECK-LABEL: nn.model @fills
nn.model @fills family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{batch = {global = 2}, mesh = {data = 2}}>,
    config = "{}", weights = {}} {
  // CHECK: nn.func @layer
  // CHECK-SAME: arg_shardings = [#dist.sharding<{{\[\[}}"data"], []], unreduced []>, #dist.sharding<{{\[\[}}"data"], []], unreduced []>]
  nn.func @layer(%x: tensor<2x4xf32>, %z: tensor<2x4xf32>) -> tensor<2x4xf32> {
    // CHECK-NOT: dist.reshard
    %0 = nn.add %x, %z : tensor<2x4xf32>
    nn.return %0 : tensor<2x4xf32>
  }
  nn.step @eval(%x: tensor<2x4xf32>) attributes {
      kind = #nn.program<eval>, inputs = [#nn.port<label_weights, "x">], outputs = []} {
    // CHECK: nn.fill 0.000000e+00 {shardings = [#dist.sharding<{{\[\[}}"data"], []], unreduced []>]}
    %z = nn.fill 0.0 : () -> tensor<2x4xf32>
    // CHECK-NOT: dist.reshard
    %0 = nn.call @layer(%x, %z) path "h.0" : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
    %1 = nn.call @layer(%0, %z) path "h.1" : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
    nn.return
  }
}
