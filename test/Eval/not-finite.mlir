// A loss that is not finite is an error, once all steps have run.

// RUN: %status 5 %heddle eval %s --steps 2 2>&1 | FileCheck %s
// CHECK-DAG: step 2
// CHECK-DAG: loss {{ *}}inf
// CHECK-DAG: error[H0410]: the loss of step 1 is not finite

nn.model @m family "test" phase "model"
    attributes {strategy = #dist.strategy<{}>, config = "{}",
                weights = {random = true, seed = 1 : i64}} {
  nn.state @w role parameter : tensor<2xf32> {
      trainable, init = #nn.init<constant, 3.0e+38 : f64, 0.0 : f64>}
  nn.func @forward() -> tensor<2xf32>
      attributes {program = #nn.program<train>, inputs = [], outputs = [#nn.port<losses>]} {
    %x = nn.get @w : tensor<2xf32>
    %losses = nn.add %x, %x : tensor<2xf32>
    nn.return %losses : tensor<2xf32>
  }
}
