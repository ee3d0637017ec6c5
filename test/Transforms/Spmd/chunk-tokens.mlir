// RUN: heddle-opt %s --spmd-chunk-tokens | FileCheck %s
// RUN: sed 's/chunk_tokens = 4/chunk_tokens = 12/' %s | heddle-opt --spmd-chunk-tokens | FileCheck %s --check-prefix=ALL
// RUN: sed 's/chunk_tokens = 4/chunk_tokens = 4, serve = {mode = serve}/' %s | heddle-opt --spmd-chunk-tokens | FileCheck %s --check-prefix=ALL
// RUN: sed 's/chunk_tokens = 4/chunk_tokens = 7/' %s | heddle-opt --spmd-chunk-tokens | FileCheck %s --check-prefix=ROWS
// RUN: sed 's/chunk_tokens = 4/chunk_tokens = 1/' %s | heddle-opt --spmd-chunk-tokens | FileCheck %s --check-prefix=ONE

nn.model @m family "gpt2" phase "spmd" attributes {
    strategy = #dist.strategy<{batch = {global = 2, micro = 2}, chunk_tokens = 4}>, config = "{}", weights = {}} {
  dist.mesh @mesh [#dist.axis<"pipe" = 1>, #dist.axis<"data" = 1>, #dist.axis<"seq" = 1>, #dist.axis<"tensor" = 2>]

  // The logits of two positions of both rows are made at a time, and become
  // their gradient at once. The gradient of the weight goes on from what it is
  // added to; it is rounded once, after the last chunk.
  // CHECK-LABEL: nn.func @head(
  // CHECK-SAME: %[[X:[^:]*]]: tensor<2x6x8xbf16>, %[[W:[^:]*]]: tensor<8x13xbf16>, %[[L:[^:]*]]: tensor<2x6xi32>, %[[G:[^:]*]]: tensor<2x6xf32>, %[[D:[^:]*]]: tensor<8x13xbf16>)
  // CHECK: %[[C0:.*]] = arith.constant 0 : index
  // CHECK: %[[X0:.*]] = nn.slice %[[X]] dim 1 first %[[C0]] : (tensor<2x6x8xbf16>, index) -> tensor<2x2x8xbf16>
  // CHECK: %[[Y0:.*]] = nn.linear %[[X0]], %[[W]] : {{.*}} -> tensor<2x2x13xbf16>
  // CHECK: %[[L0:.*]] = nn.slice %[[L]] dim 1 first
  // CHECK: %[[S0:.*]], %[[E0:.*]] = nn.cross_entropy %[[Y0]], %[[L0]]
  // CHECK: %[[G0:.*]] = nn.slice %[[G]] dim 1 first
  // CHECK: %[[DY0:.*]] = nn.cross_entropy_grad %[[Y0]], %[[L0]], %[[E0]], %[[G0]]
  // CHECK: %[[DX0:.*]] = nn.linear %[[DY0]], %[[W]] {transposed}
  // CHECK: %[[D0:.*]] = nn.cast %[[D]] : (tensor<8x13xbf16>) -> tensor<8x13xf32>
  // CHECK: %[[D1:.*]] = nn.linear_grad_weight %[[X0]], %[[DY0]] init %[[D0]] : {{.*}} -> tensor<8x13xf32>
  // CHECK: %[[C2:.*]] = arith.constant 2 : index
  // CHECK: nn.slice %[[X]] dim 1 first %[[C2]]
  // CHECK: %[[D2:.*]] = nn.linear_grad_weight {{.*}} init %[[D1]]
  // CHECK: %[[C4:.*]] = arith.constant 4 : index
  // CHECK: nn.slice %[[X]] dim 1 first %[[C4]]
  // CHECK: %[[D3:.*]] = nn.linear_grad_weight {{.*}} init %[[D2]]
  // CHECK-DAG: %[[S:.*]] = nn.concat %[[S0]], %{{.*}}, %{{.*}} dim 1 : {{.*}} -> tensor<2x6xf32>
  // CHECK-DAG: %[[DX:.*]] = nn.concat %[[DX0]], %{{.*}}, %{{.*}} dim 1 : {{.*}} -> tensor<2x6x8xbf16>
  // CHECK-DAG: %[[DW:.*]] = nn.cast %[[D3]] : (tensor<8x13xf32>) -> tensor<8x13xbf16>
  // CHECK: nn.return %[[S]], %[[DX]], %[[DW]]

  // Where all fit, nothing changes; nor where nothing trains.
  // ALL-NOT: nn.slice
  // Whole rows, where these are short enough.
  // ROWS-LABEL: nn.func @head(
  // ROWS-COUNT-2: nn.linear {{.*}} -> tensor<1x6x13xbf16>
  // ROWS-NOT: x13xbf16>) -> tensor<1x6x13xbf16>
  // ROWS: nn.return
  // A token at a time: parts are put together in groups, rows after that.
  // ONE-LABEL: nn.func @head(
  // ONE: nn.slice %{{.*}} dim 0 first %{{.*}} : (tensor<2x6x8xbf16>, index) -> tensor<1x6x8xbf16>
  // ONE: nn.slice %{{.*}} dim 1 first %{{.*}} : (tensor<1x6x8xbf16>, index) -> tensor<1x1x8xbf16>
  // ONE-COUNT-12: nn.cross_entropy_grad
  // ONE: nn.concat {{.*}} dim 1 : {{.*}} -> tensor<1x4xf32>
  // ONE: nn.concat {{.*}} dim 1 : {{.*}} -> tensor<1x2xf32>
  // ONE: nn.concat {{.*}} dim 1 : {{.*}} -> tensor<1x6xf32>
  // ONE: nn.concat {{.*}} dim 0 : {{.*}} -> tensor<2x6xf32>
  nn.func @head(%x: tensor<2x6x8xbf16>, %w: tensor<8x13xbf16>, %labels: tensor<2x6xi32>,
                %g: tensor<2x6xf32>, %d: tensor<8x13xbf16>)
      -> (tensor<2x6xf32>, tensor<2x6x8xbf16>, tensor<8x13xbf16>) {
    %y = nn.linear %x, %w : (tensor<2x6x8xbf16>, tensor<8x13xbf16>) -> tensor<2x6x13xbf16>
    %losses, %lse = nn.cross_entropy %y, %labels : (tensor<2x6x13xbf16>, tensor<2x6xi32>) -> (tensor<2x6xf32>, tensor<2x6xf32>)
    %dy = nn.cross_entropy_grad %y, %labels, %lse, %g : (tensor<2x6x13xbf16>, tensor<2x6xi32>, tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<2x6x13xbf16>
    %dx = nn.linear %dy, %w {transposed} : (tensor<2x6x13xbf16>, tensor<8x13xbf16>) -> tensor<2x6x8xbf16>
    %dw = nn.linear_grad_weight %x, %dy init %d : (tensor<2x6x8xbf16>, tensor<2x6x13xbf16>, tensor<8x13xbf16>) -> tensor<8x13xbf16>
    nn.return %losses, %dx, %dw : tensor<2x6xf32>, tensor<2x6x8xbf16>, tensor<8x13xbf16>
  }

  // Ranks that share the vocabulary exchange numbers of a chunk's tokens.
  // CHECK-LABEL: nn.func @shared(
  // CHECK: %[[LSE:.*]], %[[LOGIT:.*]] = nn.cross_entropy_part {{.*}} -> (tensor<2x2xf32>, tensor<2x2xf32>)
  // CHECK: %[[LSES:.*]] = dist.all_gather %[[LSE]] {{.*}} : tensor<2x2xf32> -> tensor<4x2xf32>
  // CHECK: %[[SUM:.*]] = dist.all_reduce %[[LOGIT]] {{.*}} : tensor<2x2xf32> -> tensor<2x2xf32>
  // CHECK: nn.cross_entropy_join %[[LSES]], %[[SUM]], %{{.*}} -> (tensor<2x2xf32>, tensor<2x2xf32>)
  // CHECK: nn.cross_entropy_grad
  // CHECK-COUNT-2: nn.cross_entropy_join
  // CHECK: nn.return
  nn.func @shared(%x: tensor<2x6x8xf32>, %w: tensor<8x7xf32>, %labels: tensor<2x6xi32>,
                  %g: tensor<2x6xf32>) -> (tensor<2x6xf32>, tensor<2x6x8xf32>) {
    %rank = dist.rank ["tensor"] : index
    %width = arith.constant 7 : index
    %first = arith.muli %rank, %width : index
    %y = nn.linear %x, %w : (tensor<2x6x8xf32>, tensor<8x7xf32>) -> tensor<2x6x7xf32>
    %part, %logit = nn.cross_entropy_part %y, %labels first %first {vocab = 13 : i64} : (tensor<2x6x7xf32>, tensor<2x6xi32>, index) -> (tensor<2x6xf32>, tensor<2x6xf32>)
    %parts = dist.all_gather %part axes ["tensor"] dim 0 for "nn.cross_entropy" : tensor<2x6xf32> -> tensor<4x6xf32>
    %label = dist.all_reduce %logit axes ["tensor"] for "nn.cross_entropy" : tensor<2x6xf32> -> tensor<2x6xf32>
    %losses, %lse = nn.cross_entropy_join %parts, %label, %labels : (tensor<4x6xf32>, tensor<2x6xf32>, tensor<2x6xi32>) -> (tensor<2x6xf32>, tensor<2x6xf32>)
    %dy = nn.cross_entropy_grad %y, %labels, %lse, %g first %first {vocab = 13 : i64} : (tensor<2x6x7xf32>, tensor<2x6xi32>, tensor<2x6xf32>, tensor<2x6xf32>, index) -> tensor<2x6x7xf32>
    %dx = nn.linear %dy, %w {transposed} : (tensor<2x6x7xf32>, tensor<8x7xf32>) -> tensor<2x6x8xf32>
    nn.return %losses, %dx : tensor<2x6xf32>, tensor<2x6x8xf32>
  }

  // An MLP. What it adds to, and dropout's bits, are of whole rows.
  // CHECK-LABEL: nn.func @mlp(
  // CHECK-COUNT-3: nn.map gelu_tanh({{.*}}) : tensor<2x2x32xf32>
  // CHECK: %[[Y:.*]] = nn.concat {{.*}} -> tensor<2x6x8xf32>
  // CHECK: nn.add %{{.*}}, %[[Y]] : tensor<2x6x8xf32>
  nn.func @mlp(%x: tensor<2x6x8xf32>, %up: tensor<8x32xf32>, %down: tensor<32x8xf32>) -> tensor<2x6x8xf32> {
    %h = nn.linear %x, %up : (tensor<2x6x8xf32>, tensor<8x32xf32>) -> tensor<2x6x32xf32>
    %a = nn.map gelu_tanh(%h) : tensor<2x6x32xf32>
    %y = nn.linear %a, %down : (tensor<2x6x32xf32>, tensor<32x8xf32>) -> tensor<2x6x8xf32>
    %z = nn.add %x, %y : tensor<2x6x8xf32>
    nn.return %z : tensor<2x6x8xf32>
  }

  // What is returned is whole.
  // CHECK-LABEL: nn.func @returned(
  // CHECK-NOT: nn.slice
  nn.func @returned(%x: tensor<2x6x8xf32>, %up: tensor<8x32xf32>, %down: tensor<32x8xf32>) -> (tensor<2x6x8xf32>, tensor<2x6x32xf32>) {
    %h = nn.linear %x, %up : (tensor<2x6x8xf32>, tensor<8x32xf32>) -> tensor<2x6x32xf32>
    %y = nn.linear %h, %down : (tensor<2x6x32xf32>, tensor<32x8xf32>) -> tensor<2x6x8xf32>
    nn.return %y, %h : tensor<2x6x8xf32>, tensor<2x6x32xf32>
  }
}
