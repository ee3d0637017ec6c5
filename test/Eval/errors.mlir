// RUN: %status 3 %heddle eval %s 2>&1 | FileCheck %s --check-prefix=MISSING
// RUN: %status 3 %heddle eval %s --program eval 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: %status 3 %heddle eval %s --program generate 2>&1 | FileCheck %s --check-prefix=PROGRAM
// RUN: %status 3 %heddle eval %t.none 2>&1 | FileCheck %s --check-prefix=FILE
// RUN: %status 2 %heddle eval %s --precision f8 2>&1 | FileCheck %s --check-prefix=PRECISION
// RUN: %status 2 %heddle eval %s --program eval,gen/8 2>&1 | FileCheck %s --check-prefix=KIND
// RUN: /usr/bin/python3 %S/Inputs/make_ids.py %t.in
// RUN: %status 3 %heddle eval %s --inputs %t.in 2>&1 | FileCheck %s --check-prefix=TAKEN

// MISSING: error[H0371]: input 'ids' is missing
// MISSING-NEXT: --> {{.*}}errors.mlir:[[@LINE+14]]:3
// MISSING: help: name a file with the program's inputs with --inputs
// UNKNOWN: error[H0371]: the interpreter does not know 'arith.subi'
// UNKNOWN-NEXT: --> {{.*}}errors.mlir:[[@LINE+19]]:12
// PROGRAM: error[H0371]: has no program generate
// FILE: error[H0396]
// TAKEN: error[H0366]: {{.*}}.in has a tensor 'labels', which no input takes
// TAKEN-NEXT: help: train takes ids
// PRECISION: error[H0196]: unknown precision 'f8'
// KIND: error[H0196]: unknown program 'gen/8'

nn.model @m family "test" phase "model"
    attributes {strategy = #dist.strategy<{}>, config = "{}",
                weights = {random = true, seed = 1 : i64}} {
  nn.func @forward(%ids: tensor<2x2xi32>) -> tensor<2x2xi32>
      attributes {program = #nn.program<train>, inputs = [#nn.port<ids>],
                  outputs = [#nn.port<value, "out">]} {
    nn.return %ids : tensor<2x2xi32>
  }
  nn.func @evaluate() -> index
      attributes {program = #nn.program<eval>, inputs = [], outputs = [#nn.port<value, "out">]} {
    %one = arith.constant 1 : index
    %two = arith.subi %one, %one : index
    nn.return %two : index
  }
}
