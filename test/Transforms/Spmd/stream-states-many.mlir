// RUN: sed 's/strategy<{}>/strategy<{place = {sub_group_size = 16777216}}>/' %s | heddle-opt --spmd-stream-states | FileCheck %s --check-prefix=COUNT
// RUN: sed 's/8589934592/2147483648/g; s/131072/32768/g' %s | heddle-opt --spmd-stream-states | FileCheck %s
// RUN: heddle-opt %s --spmd-stream-states | FileCheck %s --check-prefix=MOST
// RUN: sed 's/strategy<{}>/strategy<{place = {sub_group_size = 1000000000}}>/' %s | heddle-opt --spmd-stream-states | FileCheck %s --check-prefix=MOST

// A tile is no larger than 16777216 elements, as long as there are no more than
// 128 tiles. The sums of squares of many tiles are put together in steps: a
// GPU's kernel takes some hundred operands.

// CHECK: dist.fetch @g[0] {pending} : tensor<16777216xf32>
// CHECK: dist.fetch @g[16777216] {pending} : tensor<16777216xf32>
// COUNT-COUNT-512: nn.square_sums
// COUNT-NOT: nn.square_sums
// COUNT-COUNT-4: nn.concat {{.*}} -> tensor<32768xf32>
// COUNT: nn.concat {{.*}} : (tensor<32768xf32>, tensor<32768xf32>, tensor<32768xf32>, tensor<32768xf32>) -> tensor<131072xf32>
// COUNT-NOT: nn.concat

// MOST: dist.fetch @g[0] {pending} : tensor<67108864xf32>

nn.model @m family "gpt2" phase "spmd" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.state @w role parameter : tensor<8589934592xf32> {trainable}
  nn.state @g role gradient : tensor<8589934592xf32> {parameter = "w", memory = #nn<memory file>}
  nn.step @train() -> tensor<f32> attributes {kind = #nn.program<train>, inputs = [], outputs = [#nn.port<grad_norm>]} {
    %g = nn.get @g : tensor<8589934592xf32>
    %s = nn.square_sums %g : (tensor<8589934592xf32>) -> tensor<131072xf32>
    %n = nn.global_norm %s {summed} : (tensor<131072xf32>) -> tensor<f32>
    nn.return %n : tensor<f32>
  }
}
