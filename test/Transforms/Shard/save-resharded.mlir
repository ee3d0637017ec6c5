// RUN: heddle-opt %s --shard-save-resharded --shard-verify | FileCheck %s
// RUN: heddle-opt %s --shard-save-resharded=print-reasons 2>&1 >/dev/null | FileCheck %s --check-prefix=WHY
// WHY: block.bwd argument 1: seq on dim 2: as block.fwd exchanged it (shard-save-resharded)
// WHY-NEXT: block.bwd argument 0: seq on dim 2: as block.fwd exchanged it (shard-save-resharded)

// What the forward function exchanged is saved as it is then: %qkv in the place
// of what it was before, the output of attention beside what it is behind it,
// which the backward function needs too. What is gathered is gathered again.

// CHECK-LABEL: nn.model @saved
nn.model @saved family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{batch = {global = 2, micro = 2}, mesh = {seq = 2}}>, config = "{}", weights = {}} {
  dist.mesh @mesh [#dist.axis<"pipe" = 1>, #dist.axis<"data" = 1>, #dist.axis<"seq" = 2>, #dist.axis<"tensor" = 1>]
  // CHECK: nn.func @block.fwd
  // CHECK-SAME: result_shardings = [#dist.sharding<{{\[\[}}], ["seq"], []], unreduced []>, #dist.sharding<{{\[\[}}], [], ["seq"]], unreduced []>, #dist.sharding<{{\[\[}}], [], ["seq"]], unreduced []>]
  nn.func @block.fwd(%x: tensor<2x4x8xf32>) -> (tensor<2x4x8xf32>, tensor<2x4x8xf32>) attributes {
      arg_shardings = [#dist.sharding<[[], ["seq"], []], unreduced []>],
      result_shardings = [#dist.sharding<[[], ["seq"], []], unreduced []>, #dist.sharding<[[], ["seq"], []], unreduced []>]} {
    // CHECK: %[[Q:.*]] = nn.map relu(
    %q = nn.map relu(%x) {shardings = [#dist.sharding<[[], ["seq"], []], unreduced []>]} : tensor<2x4x8xf32>
    // CHECK: %[[HEADS:.*]] = dist.reshard %[[Q]]
    %heads = dist.reshard %q from <[[], ["seq"], []], unreduced []> to <[[], [], ["seq"]], unreduced []> for "nn.attention" : tensor<2x4x8xf32>
    // CHECK: %[[OUT:.*]] = nn.map gelu
    %out = nn.map gelu(%heads) {shardings = [#dist.sharding<[[], [], ["seq"]], unreduced []>]} : tensor<2x4x8xf32>
    // CHECK: %[[BACK:.*]] = dist.reshard %[[OUT]]
    %back = dist.reshard %out from <[[], [], ["seq"]], unreduced []> to <[[], ["seq"], []], unreduced []> for "nn.attention" : tensor<2x4x8xf32>
    // CHECK: nn.return %[[BACK]], %[[HEADS]], %[[OUT]]
    nn.return %back, %q : tensor<2x4x8xf32>, tensor<2x4x8xf32>
  }
  // CHECK: nn.func @block.bwd(%[[OUT:[^:]*]]: tensor<2x4x8xf32>, %[[QKV:[^:]*]]: tensor<2x4x8xf32>, %[[HEADS:[^:]*]]: tensor<2x4x8xf32>)
  // CHECK-SAME: arg_shardings = [#dist.sharding<{{\[\[}}], ["seq"], []], unreduced []>, #dist.sharding<{{\[\[}}], [], ["seq"]], unreduced []>, #dist.sharding<{{\[\[}}], [], ["seq"]], unreduced []>]
  nn.func @block.bwd(%out: tensor<2x4x8xf32>, %qkv: tensor<2x4x8xf32>) -> tensor<2x4x8xf32> attributes {
      arg_shardings = [#dist.sharding<[[], ["seq"], []], unreduced []>, #dist.sharding<[[], ["seq"], []], unreduced []>],
      result_shardings = [#dist.sharding<[[], [], []], unreduced []>]} {
    // CHECK-NOT: ["seq"]], unreduced []> for
    // CHECK: nn.map gelu_grad(%[[QKV]], %[[HEADS]])
    %0 = dist.reshard %qkv from <[[], ["seq"], []], unreduced []> to <[[], [], ["seq"]], unreduced []> for "nn.attention_grad" : tensor<2x4x8xf32>
    %1 = dist.reshard %out from <[[], ["seq"], []], unreduced []> to <[[], [], ["seq"]], unreduced []> for "nn.attention_grad" : tensor<2x4x8xf32>
    %2 = nn.map gelu_grad(%0, %1) {shardings = [#dist.sharding<[[], [], ["seq"]], unreduced []>]} : tensor<2x4x8xf32>
    // CHECK: dist.reshard %[[OUT]] {{.*}} for "nn.linear"
    %3 = dist.reshard %out from <[[], ["seq"], []], unreduced []> to <[[], [], []], unreduced []> for "nn.linear" : tensor<2x4x8xf32>
    nn.return %3 : tensor<2x4x8xf32>
  }
  nn.step @train(%x: tensor<2x4x8xf32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = [],
      arg_shardings = [#dist.sharding<[[], ["seq"], []], unreduced []>], result_shardings = []} {
    // CHECK: %[[A:.*]]:3 = nn.call @block.fwd({{.*}}) path "h.0"
    // CHECK: %[[B:.*]]:3 = nn.call @block.fwd(%[[A]]#0) path "h.1"
    %a:2 = nn.call @block.fwd(%x) path "h.0" : (tensor<2x4x8xf32>) -> (tensor<2x4x8xf32>, tensor<2x4x8xf32>)
    %b:2 = nn.call @block.fwd(%a#0) path "h.1" : (tensor<2x4x8xf32>) -> (tensor<2x4x8xf32>, tensor<2x4x8xf32>)
    // CHECK: nn.call @block.bwd(%[[B]]#0, %[[B]]#1, %[[B]]#2) path "h.1"
    // CHECK: nn.call @block.bwd(%[[A]]#0, %[[A]]#1, %[[A]]#2) path "h.0"
    %c = nn.call @block.bwd(%b#0, %b#1) path "h.1" : (tensor<2x4x8xf32>, tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
    %d = nn.call @block.bwd(%a#0, %a#1) path "h.0" : (tensor<2x4x8xf32>, tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
    nn.return
  }
}
