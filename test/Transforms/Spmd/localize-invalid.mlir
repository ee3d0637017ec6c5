// RUN: heddle-opt %s --split-input-file --spmd-localize --verify-diagnostics

nn.func @reshard(%x: tensor<4xf32>) {
  // expected-error @+1 {{H0202: a value changes its sharding between ranks: this version compiles for one rank only}}
  %0 = dist.reshard %x from <[[]], unreduced ["data"]> to <[[]], unreduced []> for "nn.set" : tensor<4xf32>
  nn.return
}

// -----

nn.func @split(%x: tensor<4xf32>) {
  // expected-error @+1 {{H0202: a value is split over ranks (#dist.sharding<[["data"]], unreduced []>): this version compiles for one rank only}}
  %0 = nn.relu %x {shardings = [#dist.sharding<[["data"]], unreduced []>]} : tensor<4xf32>
  nn.return
}

// -----

nn.func @partial(%x: tensor<2x4xf32>) {
  // expected-error @+1 {{H0202: a value is split over ranks (#dist.sharding<[[]], unreduced ["data"]>): this version compiles for one rank only}}
  %0 = nn.sum_rows %x {shardings = [#dist.sharding<[[]], unreduced ["data"]>]} : (tensor<2x4xf32>) -> tensor<4xf32>
  nn.return
}

// -----

// expected-error @+1 {{H0202: a value is split over ranks}}
nn.func @argument(%x: tensor<4xf32>) attributes {
    arg_shardings = [#dist.sharding<[["data"]], unreduced []>]} {
  nn.return
}
