// RUN: sed 's/PLACE/place = {optimizer = file}/' %s | heddle-opt --shard-place-states | FileCheck %s --check-prefixes=CHECK,FILE
// RUN: sed 's/PLACE/place = {optimizer = host}/' %s | heddle-opt --shard-place-states | FileCheck %s --check-prefixes=CHECK,HOST
// RUN: sed 's/PLACE/place = {optimizer = device}/' %s | heddle-opt --shard-place-states | FileCheck %s --check-prefix=NONE
// RUN: sed 's/PLACE/place = {optimizer = disk}/' %s | not heddle-opt --shard-place-states 2>&1 | FileCheck %s --check-prefix=WRONG

// Moments are placed, and the parameters that only the optimizer reads; not
// those that computation reads, frozen ones, copies, gradients, powers and
// states that every replica holds whole.
// NONE-NOT: <memory
// WRONG: optimizer
// CHECK-LABEL: nn.model @m
nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{PLACE}>, config = "{}", weights = {}} {
  // FILE: nn.state @w role parameter {{.*}} {memory = #nn<memory file>, trainable}
  // HOST: nn.state @w role parameter {{.*}} {memory = #nn<memory host>, trainable}
  nn.state @w role parameter : tensor<5x7xf32> {trainable}
  // CHECK: nn.state @w.bf16 role derived : tensor<5x7xbf16> {parameter = "w"}
  nn.state @w.bf16 role derived : tensor<5x7xbf16> {parameter = "w"}
  // CHECK: nn.state @w.grad role gradient : tensor<5x7xf32> {parameter = "w"}
  nn.state @w.grad role gradient : tensor<5x7xf32> {parameter = "w"}
  // FILE: nn.state @w.exp_avg role optimizer {{.*}} {memory = #nn<memory file>, parameter = "w"}
  // HOST: nn.state @w.exp_avg role optimizer {{.*}} {memory = #nn<memory host>, parameter = "w"}
  nn.state @w.exp_avg role optimizer : tensor<5x7xf32> {parameter = "w"}
  // CHECK: nn.state @v role parameter : tensor<3xf32> {trainable}
  nn.state @v role parameter : tensor<3xf32> {trainable}
  // CHECK: nn.state @v.exp_avg role optimizer {{.*}} {memory = #nn<memory {{file|host}}>, parameter = "v"}
  nn.state @v.exp_avg role optimizer : tensor<3xf32> {parameter = "v"}
  // CHECK: nn.state @frozen role parameter : tensor<3xf32>{{$}}
  nn.state @frozen role parameter : tensor<3xf32>
  nn.state @frozen.bf16 role derived : tensor<3xbf16> {parameter = "frozen"}
  // CHECK: nn.state @v.whole role optimizer : tensor<3xf32> {held = #nn.held<whole>, parameter = "v"}
  nn.state @v.whole role optimizer : tensor<3xf32> {held = #nn.held<whole>, parameter = "v"}
  // CHECK: nn.state @beta1_power role optimizer : tensor<f64>{{$}}
  nn.state @beta1_power role optimizer : tensor<f64>
  // What something sums over whole stays.
  // CHECK: nn.state @summed role parameter : tensor<64xf32> {trainable}
  nn.state @summed role parameter : tensor<64xf32> {trainable}
  nn.state @summed.bf16 role derived : tensor<64xbf16> {parameter = "summed"}
  // CHECK: nn.state @beside role parameter : tensor<64xf32> {trainable}
  nn.state @beside role parameter : tensor<64xf32> {trainable}
  nn.state @beside.bf16 role derived : tensor<64xbf16> {parameter = "beside"}
  nn.bucket @parameters.both [@summed, @beside] : tensor<128xf32>
  nn.step @train() attributes {kind = #nn.program<train>, inputs = [], outputs = []} {
    %p = nn.get @summed : tensor<64xf32>
    %r = dist.reshard %p from <[[]], unreduced []> to <[["data"]], unreduced []> for "nn.square_sum" : tensor<64xf32>
    %s = nn.global_norm %r {summed} : (tensor<64xf32>) -> tensor<f32>
    nn.return
  }
}
