// RUN: sed "s/PARTS//" %s | heddle-opt --shard-place-states | FileCheck %s --check-prefixes=CHECK,ALL
// RUN: sed 's/"data" = 1/"data" = 2/; s/PARTS/"data"/; s/<{place/<{batch = {global = 2}, mesh = {data = 2}, zero = {stage = 3}, place/' %s | heddle-opt --shard-place-states | FileCheck %s --check-prefixes=CHECK,SPLIT
// RUN: sed 's/PARTS//; s/parameters = file/parameters = host/' %s | heddle-opt --shard-place-states | FileCheck %s --check-prefix=HOST

// What layers read is placed: copies, and parameters that have none. What is in
// no bucket is not trained; with ZeRO 3 what every rank keeps whole stays.
// HOST: @a.bf16 role derived {{.*}}memory = #nn<memory host>
// CHECK-LABEL: nn.model @m
nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{place = {parameters = file}}>, config = "{}", weights = {}} {
  dist.mesh @mesh [#dist.axis<"pipe" = 1>, #dist.axis<"data" = 1>, #dist.axis<"seq" = 1>, #dist.axis<"tensor" = 1>]
  // CHECK: nn.state @a role parameter : tensor<64xf32> {trainable}
  nn.state @a role parameter : tensor<64xf32> {trainable}
  // CHECK: nn.state @a.bf16 role derived {{.*}}memory = #nn<memory file>
  nn.state @a.bf16 role derived : tensor<64xbf16> {parameter = "a"}
  // CHECK: nn.state @a.exp_avg role optimizer : tensor<64xf32> {parameter = "a"}
  nn.state @a.exp_avg role optimizer : tensor<64xf32> {parameter = "a"}
  // CHECK: nn.state @b role parameter {{.*}}memory = #nn<memory file>
  nn.state @b role parameter : tensor<64xf32> {trainable}
  // CHECK: nn.state @frozen role parameter : tensor<3xf32>{{$}}
  nn.state @frozen role parameter : tensor<3xf32>
  // ALL: nn.state @small role parameter {{.*}}memory = #nn<memory file>
  // SPLIT: nn.state @small role parameter : tensor<64xf32> {trainable}
  nn.state @small role parameter : tensor<64xf32> {trainable}
  nn.bucket @parameters.a [@a] : tensor<64xf32>
  nn.bucket @copies.a [@a.bf16] : tensor<64xbf16> {storage = #dist.sharding<[[PARTS]], unreduced []>}
  nn.bucket @exp_avg.a [@a.exp_avg] : tensor<64xf32>
  nn.bucket @parameters.b [@b] : tensor<64xf32> {storage = #dist.sharding<[[PARTS]], unreduced []>}
  nn.bucket @parameters.small [@small] : tensor<64xf32>
}
