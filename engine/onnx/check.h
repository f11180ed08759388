// Runner of one test case in the layout of ONNX's backend tests: FOLDER/model.onnx and, for each data set,
// FOLDER/test_data_set_N/input_K.pb and output_K.pb (serialized TensorProtos). Imports, runs and compares the case.
#pragma once

#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/program/kernel.h"

namespace rivulet::onnx {

struct CheckOptions {
  // Tolerances as in NumPy's allclose: |actual - expected| <= atol + rtol * |expected|; NaN equals NaN. Integers and
  // bools must be equal. bfloat16 has precision 2^-8, so its rtol is at least 2^-6, as in ONNX's own runner.
  double rtol = 1e-3;
  double atol = 1e-7;
  KernelPolicy kernels;
  // Imports with the first axis of every input unknown, as for a model of any batch size, if the model permits it.
  bool open_batch = false;
  size_t bytes = size_t{4} << 30;  // memory limit of one run
};

struct CheckReport {
  bool passed = false;
  bool unsupported = false;      // the importer or the engine lacks a feature, named in `message`
  std::string message;           // one sentence with the reason for a failure
  std::vector<std::string> ops;  // the model's operators, without duplicates, sorted
  bool open_batch = false;       // the model was imported with an unknown batch size, as requested
  int data_sets = 0;
  int outputs = 0;                    // number of compared outputs
  double largest_error = 0;           // |actual - expected| over all outputs
  double largest_relative_error = 0;  // errors divided by |expected|, where that is not 0
};

// Checks a case. An unreadable case also gives a report that did not pass.
CheckReport CheckCase(const std::string& folder, const CheckOptions& options = {});

// Compares one output and updates the report's errors. INVALID_ARGUMENT names the first element that differs, and the
// number of such elements.
Status CompareTensors(const std::string& name, const Tensor& actual, const Tensor& expected,
                      const CheckOptions& options, CheckReport& report);

}  // namespace rivulet::onnx
