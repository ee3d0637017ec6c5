// RUN: heddle-opt %s --spmd-condition-transfers --verify-roundtrip | FileCheck %s
// RUN: heddle-opt %s --spmd-condition-transfers --spmd-verify -o /dev/null
// RUN: not heddle-opt %s --spmd-verify -o /dev/null 2>&1 | FileCheck %s --check-prefix=MISSING
// RUN: heddle-opt %s --spmd-condition-transfers | sed 's/wait %\([0-9]*\) {nn.when = @h.0.kept}/wait %\1/' | not heddle-opt --spmd-verify 2>&1 | FileCheck %s --check-prefix=WAIT

// MISSING: H0906: serves only calls with the condition @h.0.kept, and is not skipped with them
// WAIT: has not the condition @h.0.kept of a value that it uses

nn.model @m family "gpt2" phase "spmd" attributes {config = "{}", weights = {}, strategy = #dist.strategy<{mesh = {data = 2}}>} {
  dist.mesh @mesh [#dist.axis<"pipe" = 1>, #dist.axis<"data" = 2>, #dist.axis<"seq" = 1>, #dist.axis<"tensor" = 1>]
  nn.condition @h.0.kept <"h.0", 0.5>
  nn.condition @h.1.kept <"h.1", 0.5>
  nn.state @parameters.h.0 role parameter : tensor<64xf32> {trainable}
  nn.state @parameters.h.1 role parameter : tensor<64xf32>
  nn.state @parameters.h.0.grad role gradient : tensor<64xf32> {parameter = "parameters.h.0"}
  nn.state @tied role parameter : tensor<128xf32>

  // CHECK-LABEL: nn.step @train
  nn.step @train(%x: tensor<128xf32>) -> (tensor<128xf32>) attributes {
      inputs = [#nn.port<value, "x">], kind = #nn.program<train>, outputs = [#nn.port<value, "y">]} {
    // The transfers of a layer's parameters are skipped with the layer, also
    // where they begin before another layer.
    // CHECK: %[[P0:.*]] = nn.get @parameters.h.0 {nn.when = @h.0.kept}
    // CHECK: %[[G0:.*]] = dist.all_gather %[[P0]] {{.*}} {nn.when = @h.0.kept, pending}
    // CHECK: %[[W0:.*]] = dist.wait %[[G0]] {nn.when = @h.0.kept}
    // CHECK: %[[P1:.*]] = nn.get @parameters.h.1 {nn.when = @h.1.kept}
    // CHECK: %[[G1:.*]] = dist.all_gather %[[P1]] {{.*}} {nn.when = @h.1.kept, pending}
    %p0 = nn.get @parameters.h.0 : tensor<64xf32>
    %g0 = dist.all_gather %p0 axes ["data"] dim 0 for "h.0" {pending} : tensor<64xf32> -> tensor<128xf32>
    %w0 = dist.wait %g0 : tensor<128xf32>
    %p1 = nn.get @parameters.h.1 : tensor<64xf32>
    %g1 = dist.all_gather %p1 axes ["data"] dim 0 for "h.1" {pending} : tensor<64xf32> -> tensor<128xf32>
    // A value that both layers use is not.
    // CHECK: %[[TIED:.*]] = nn.get @tied : tensor<128xf32>
    %tied = nn.get @tied : tensor<128xf32>
    // CHECK: nn.call @fwd({{.*}}, %[[W0]], %[[TIED]]) path "h.0" when @h.0.kept passes [0, -1]
    %y0, %s0 = nn.call @fwd(%x, %w0, %tied) path "h.0" when @h.0.kept passes [0, -1] : (tensor<128xf32>, tensor<128xf32>, tensor<128xf32>) -> (tensor<128xf32>, tensor<128xf32>)
    // CHECK: %[[W1:.*]] = dist.wait %[[G1]] {nn.when = @h.1.kept}
    %w1 = dist.wait %g1 : tensor<128xf32>
    // CHECK: nn.call @fwd(%{{.*}}, %[[W1]], %[[TIED]]) path "h.1" when @h.1.kept passes [0, -1]
    %y1, %s1 = nn.call @fwd(%y0, %w1, %tied) path "h.1" when @h.1.kept passes [0, -1] : (tensor<128xf32>, tensor<128xf32>, tensor<128xf32>) -> (tensor<128xf32>, tensor<128xf32>)
    // What uses a saved value is skipped with the layer that computes it.
    // CHECK: %[[SAVED:.*]] = dist.slice %{{.*}} {nn.when = @h.0.kept}
    // CHECK: %[[WHOLE:.*]] = dist.all_gather %[[SAVED]] {{.*}} {nn.when = @h.0.kept}
    %part = dist.slice %s0 axes ["data"] dim 0 for "h.0" : tensor<128xf32> -> tensor<64xf32>
    %saved = dist.all_gather %part axes ["data"] dim 0 for "h.0" : tensor<64xf32> -> tensor<128xf32>
    // CHECK: %[[BACK:.*]]:2 = nn.call @bwd({{.*}}, %[[WHOLE]]) path "h.0" when @h.0.kept passes [0, -2]
    %dx, %dw = nn.call @bwd(%y1, %saved) path "h.0" when @h.0.kept passes [0, -2] : (tensor<128xf32>, tensor<128xf32>) -> (tensor<128xf32>, tensor<128xf32>)
    // A gradient that is zero is neither reduced nor added.
    // CHECK: %[[REDUCED:.*]] = dist.reduce_scatter %[[BACK]]#1 {{.*}} {nn.when = @h.0.kept}
    // CHECK: %[[BEFORE:.*]] = nn.get @parameters.h.0.grad {nn.when = @h.0.kept}
    // CHECK: %[[SUM:.*]] = nn.add %[[BEFORE]], %[[REDUCED]] {nn.when = @h.0.kept}
    // CHECK: nn.set @parameters.h.0.grad, %[[SUM]] {nn.when = @h.0.kept}
    %zeros = nn.fill 0.0 : () -> tensor<64xf32>
    nn.set @parameters.h.0.grad, %zeros : tensor<64xf32>
    %reduced = dist.reduce_scatter %dw axes ["data"] dim 0 for "h.0" : tensor<128xf32> -> tensor<64xf32>
    %before = nn.get @parameters.h.0.grad : tensor<64xf32>
    %sum = nn.add %before, %reduced : tensor<64xf32>
    nn.set @parameters.h.0.grad, %sum : tensor<64xf32>
    // CHECK: nn.return %[[BACK]]#0
    nn.return %dx : tensor<128xf32>
  }
  nn.func @fwd(%x: tensor<128xf32>, %w: tensor<128xf32>, %t: tensor<128xf32>) -> (tensor<128xf32>, tensor<128xf32>) {
    %0 = nn.add %x, %w : tensor<128xf32>
    %1 = nn.add %0, %t : tensor<128xf32>
    nn.return %1, %0 : tensor<128xf32>, tensor<128xf32>
  }
  nn.func @bwd(%dy: tensor<128xf32>, %s: tensor<128xf32>) -> (tensor<128xf32>, tensor<128xf32>) {
    %0 = nn.add %dy, %s : tensor<128xf32>
    nn.return %0, %dy : tensor<128xf32>, tensor<128xf32>
  }
}
