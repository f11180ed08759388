// One test case in the layout of ONNX's backend tests: FOLDER/model.onnx and, for each data set,
// FOLDER/test_data_set_N/input_K.pb and output_K.pb (serialized TensorProtos). The case is imported, run and compared.
#pragma once

#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/program/kernel.h"

namespace rivulet::onnx {

struct CheckOptions {
  // As NumPy's allclose: |actual - expected| <= atol + rtol * |expected|; NaN equals NaN. Integers and bools must be
  // equal. bfloat16, whose last bit is 2^-8, gets an rtol of at least 2^-6, as in ONNX's own runner.
  double rtol = 1e-3;
  double atol = 1e-7;
  KernelPolicy kernels;
  // Import with the first axis of every input open, as a model for any batch is, where the model can be so imported.
  bool open_batch = false;
  size_t bytes = size_t{4} << 30;  // what one run may take
};

struct CheckReport {
  bool passed = false;
  bool unsupported = false;      // the importer or the engine lacks something, which `message` names
  std::string message;           // why it did not pass; one sentence
  std::vector<std::string> ops;  // operators of the model, each once, sorted
  bool open_batch = false;       // the model was imported with an open batch, as asked for
  int data_sets = 0;
  int outputs = 0;                    // compared
  double largest_error = 0;           // |actual - expected| over all outputs
  double largest_relative_error = 0;  // of those over |expected|, where that is not 0
};

// An unreadable case is a report that did not pass, too.
CheckReport CheckCase(const std::string& folder, const CheckOptions& options = {});

// Compares one output; updates the report's errors. INVALID_ARGUMENT names the first element that differs, and how
// many.
Status CompareTensors(const std::string& name, const Tensor& actual, const Tensor& expected,
                      const CheckOptions& options, CheckReport& report);

}  // namespace rivulet::onnx
