// RUN: %status 2 %heddle eval %s 2>&1 | FileCheck %s --check-prefix=RANKS
// RUN: %heddle eval %s --ranks | FileCheck %s --check-prefix=SUM
// RUN: %status 3 %heddle eval %s --ranks --program eval 2>&1 | FileCheck %s --check-prefix=DIFFER
// RUN: %status 3 %heddle eval %s --ranks --program generate 2>&1 | FileCheck %s --check-prefix=FOREVER

// RANKS: error[H0197]: '{{.*}}' is made for 4 ranks
// RANKS: pass --ranks
// SUM: loss 6
// DIFFER: error[H0371]: ranks 0 and 1 disagree about 'loss'
// FOREVER: error[H0371]: rank 0 waits for ever in 'dist.recv' on channel "F0"; rank 1 in 'dist.recv'

nn.model @m family "test" phase "spmd"
    attributes {strategy = #dist.strategy<{batch = {global = 2}, mesh = {data = 2, tensor = 2}}>,
                config = "{}", weights = {random = true, seed = 1 : i64}} {
  nn.state @w role parameter : tensor<1xf32>
    {whole = tensor<2xf32>, init = #nn.init<constant, 1.5 : f64, 0.0 : f64>,
     storage = #dist.sharding<[["data"]], unreduced []>}
  pipe.stage @stage0 index 0 calls []
  pipe.schedule @schedule micro_batches 1 ["F0 B0 O"]
  nn.step @train() -> tensor<f32>
      attributes {kind = #nn.program<train>, inputs = [], outputs = [#nn.port<loss>]} {
    %w = nn.get @w : tensor<1xf32>
    %sum = dist.all_reduce %w axes ["data", "tensor"] for "the test"
        : tensor<1xf32> -> tensor<1xf32>
    %loss = nn.sum %sum : (tensor<1xf32>) -> tensor<f32>
    nn.return %loss : tensor<f32>
  }
  nn.step @evaluate() -> tensor<f32>
      attributes {kind = #nn.program<eval>, inputs = [], outputs = [#nn.port<loss>]} {
    %a = nn.fill 1.0 : () -> tensor<1xf32>
    %b = nn.fill 2.0 : () -> tensor<1xf32>
    %flat = nn.pack %a, %b : (tensor<1xf32>, tensor<1xf32>) -> tensor<128xf32>
    %own = dist.slice %flat axes ["tensor"] dim 0 for "the test"
        : tensor<128xf32> -> tensor<64xf32>
    %loss = nn.sum %own : (tensor<64xf32>) -> tensor<f32>
    nn.return %loss : tensor<f32>
  }
  nn.step @generate() -> tensor<f32>
      attributes {kind = #nn.program<generate>, inputs = [], outputs = [#nn.port<loss>]} {
    %loss = dist.recv from 1 on "tensor" channel "F0" : tensor<f32>
    nn.return %loss : tensor<f32>
  }
}
