#include "engine/onnx/check.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "engine/base/file_system.h"
#include "engine/onnx/import.h"
#include "engine/onnx/run.h"
#include "engine/onnx/tensor.h"
#include "engine/tensor/float16.h"

namespace rivulet::onnx {
namespace {

// A file's values as the suite writes them; `index` of "input_3.pb".
StatusOr<std::vector<Tensor>> ReadTensors(const std::string& folder, std::string_view kind) {
  FileSystem& files = FileSystem::Default();
  std::vector<Tensor> tensors;
  for (int i = 0;; ++i) {
    const std::string path = JoinPath(folder, fmt::format("{}_{}.pb", kind, i));
    if (!files.Exists(path)) return tensors;
    RIVULET_ASSIGN_OR_RETURN(const std::string bytes, files.ReadAll(path));
    StatusOr<Tensor> tensor = ParseOnnxTensor(bytes);
    if (!tensor.ok()) return Annotate(tensor.status(), fmt::format("{}_{}.pb", kind, i));
    tensors.push_back(*std::move(tensor));
  }
}

template <typename T>
double AsDouble(T value) {
  if constexpr (std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>) return static_cast<float>(value);
  return static_cast<double>(value);
}

struct Differences {
  int64_t count = 0, first = -1;
  std::string actual, expected;
};

template <typename T>
void Compare(const Tensor& actual, const Tensor& expected, double rtol, double atol, Differences& differences,
             CheckReport& report) {
  const std::span<const T> as = actual.flat<T>(), es = expected.flat<T>();
  constexpr bool exact = std::is_integral_v<T>;
  for (size_t i = 0; i < es.size(); ++i) {
    const double a = AsDouble(as[i]), e = AsDouble(es[i]);
    const double error = std::abs(a - e);
    bool near = false;
    if constexpr (exact) {
      near = as[i] == es[i];
    } else {
      near = (std::isnan(a) && std::isnan(e)) || a == e ||
             (std::isfinite(a) && std::isfinite(e) && error <= atol + rtol * std::abs(e));
    }
    if (std::isfinite(error)) {
      report.largest_error = std::max(report.largest_error, error);
      if (e != 0 && std::isfinite(e))
        report.largest_relative_error = std::max(report.largest_relative_error, error / std::abs(e));
    }
    if (near) continue;
    if (differences.count++ == 0) {
      differences.first = static_cast<int64_t>(i);
      differences.actual = exact ? fmt::format("{}", static_cast<int64_t>(a)) : fmt::format("{:.9g}", a);
      differences.expected = exact ? fmt::format("{}", static_cast<int64_t>(e)) : fmt::format("{:.9g}", e);
    }
  }
}

// "[1,0,3]": the place of the element in its tensor.
std::string Place(int64_t element, const Shape& shape) {
  std::string place;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    place = fmt::format("{}{}{}", element % shape.dim(axis), place.empty() ? "" : ",", place);
    element /= shape.dim(axis);
  }
  return fmt::format("[{}]", place);
}

struct Case {
  std::string model;
  std::string folder;
};

// Imports with the inputs' shapes. If the value of an input is required, imports again with that input as a constant,
// and sets `constants`.
StatusOr<OnnxModel> ImportFor(const Case& test, const std::vector<std::string>& names,
                              const std::vector<Tensor>& inputs, bool open_batch, bool& constants) {
  ImportOptions options;
  options.folder = test.folder;
  for (size_t i = 0; i < names.size(); ++i) {
    Shape shape = inputs[i].shape();
    if (open_batch && shape.rank() > 0) shape.set_dim(0, kUnknownDim);
    options.shapes[names[i]] = shape;
  }
  for (;;) {
    std::set<std::string> needed;
    StatusOr<OnnxModel> model = ImportOnnx(test.model, options, &needed);
    if (model.ok() || model.status().code() != absl::StatusCode::kFailedPrecondition) return model;
    bool more = false;
    for (size_t i = 0; i < names.size(); ++i) {
      if (!needed.contains(names[i]) || options.constants.contains(names[i])) continue;
      options.constants[names[i]] = inputs[i];
      options.shapes.erase(names[i]);
      more = constants = true;
    }
    if (!more) return model;
  }
}

StatusOr<std::vector<Tensor>> Run(const OnnxModel& model, const std::vector<std::string>& names,
                                  const std::vector<Tensor>& inputs, const CheckOptions& options) {
  NamedTensors feeds, variables;
  for (const OnnxValue& input : model.inputs) {
    const auto found = std::ranges::find(names, input.name);
    if (found == names.end()) return NotFound("the case gives no value to the input '{}'", input.name);
    const Tensor& value = inputs[static_cast<size_t>(found - names.begin())];
    if (value.dtype() != input.spec.dtype)
      return InvalidArgument("the input '{}' is {}, but the case gives {}", input.name, Name(input.spec.dtype),
                             Name(value.dtype()));
    feeds.emplace_back(input.tensor, value);
  }
  for (const OnnxWeight& weight : model.weights) variables.emplace_back(weight.variable, weight.value);
  std::vector<std::string> fetches;
  for (const OnnxValue& output : model.outputs) fetches.push_back(output.tensor);
  return RunOnce(model.graph, feeds, fetches, variables, options.kernels, {options.bytes});
}

Status CheckDataSet(const Case& test, const std::string& folder, const CheckOptions& options, CheckReport& report) {
  RIVULET_ASSIGN_OR_RETURN(const std::vector<Tensor> inputs, ReadTensors(folder, "input"));
  RIVULET_ASSIGN_OR_RETURN(const std::vector<Tensor> expected, ReadTensors(folder, "output"));
  if (expected.empty()) return NotFound("'{}' has no output_0.pb", folder);
  RIVULET_ASSIGN_OR_RETURN(const ModelSummary summary, SummarizeOnnx(test.model));
  // Values go to the inputs in their order; those that initializers give are left out unless all are there.
  std::vector<std::string> names = inputs.size() == summary.all_inputs.size() ? summary.all_inputs : summary.inputs;
  if (names.size() < inputs.size())
    return InvalidArgument("the case gives {} inputs to a model of {}", inputs.size(), names.size());
  names.resize(inputs.size());
  std::vector<std::string> given;
  std::vector<Tensor> values;
  for (size_t i = 0; i < names.size(); ++i) {
    if (std::ranges::find(summary.inputs, names[i]) == summary.inputs.end()) continue;
    given.push_back(names[i]);
    values.push_back(inputs[i]);
  }
  bool constants = false;
  StatusOr<OnnxModel> imported = ImportFor(test, given, values, options.open_batch, constants);
  // A model that needs an input's value is one that `model import` refuses: its batch is not open.
  report.open_batch = options.open_batch && imported.ok() && !constants;
  if (!imported.ok() && options.open_batch) imported = ImportFor(test, given, values, false, constants);
  RIVULET_ASSIGN_OR_RETURN(const OnnxModel model, std::move(imported));
  RIVULET_ASSIGN_OR_RETURN(const std::vector<Tensor> actual, Run(model, given, values, options));
  if (actual.size() != expected.size())
    return InvalidArgument("the model has {} outputs, but the case has {}", actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    RIVULET_RETURN_IF_ERROR(CompareTensors(model.outputs[i].name, actual[i], expected[i], options, report));
    ++report.outputs;
  }
  return absl::OkStatus();
}

Status CheckAll(const std::string& folder, const CheckOptions& options, CheckReport& report) {
  FileSystem& files = FileSystem::Default();
  Case test;
  test.folder = folder;
  RIVULET_ASSIGN_OR_RETURN(test.model, files.ReadAll(JoinPath(folder, "model.onnx")));
  RIVULET_ASSIGN_OR_RETURN(const ModelSummary summary, SummarizeOnnx(test.model));
  report.ops = summary.ops;
  if (!summary.no_tensor.empty()) return Unimplemented("{}, which a case cannot hold here", summary.no_tensor);
  RIVULET_ASSIGN_OR_RETURN(const std::vector<std::string> entries, files.List(folder));
  for (const std::string& entry : entries) {
    if (!entry.starts_with("test_data_set_")) continue;
    const Status status = CheckDataSet(test, JoinPath(folder, entry), options, report);
    if (!status.ok()) return entry == "test_data_set_0" ? status : Annotate(status, entry);
    ++report.data_sets;
  }
  if (report.data_sets == 0) return NotFound("'{}' has no test_data_set_0", folder);
  return absl::OkStatus();
}

}  // namespace

Status CompareTensors(const std::string& name, const Tensor& actual, const Tensor& expected,
                      const CheckOptions& options, CheckReport& report) {
  if (actual.dtype() != expected.dtype() || actual.shape() != expected.shape())
    return InvalidArgument("output '{}' is {}{}, expected {}{}", name, Name(actual.dtype()), actual.shape().ToString(),
                           Name(expected.dtype()), expected.shape().ToString());
  Differences differences;
  const double rtol = expected.dtype() == DType::kBFloat16 ? std::max(options.rtol, 0x1p-6) : options.rtol;
  const auto compare = [&](auto type) {
    Compare<decltype(type)>(actual, expected, rtol, options.atol, differences, report);
  };
  switch (expected.dtype()) {
    case DType::kFloat32:
      compare(float{});
      break;
    case DType::kFloat64:
      compare(double{});
      break;
    case DType::kFloat16:
      compare(float16{});
      break;
    case DType::kBFloat16:
      compare(bfloat16{});
      break;
    case DType::kInt8:
      compare(int8_t{});
      break;
    case DType::kInt16:
      compare(int16_t{});
      break;
    case DType::kInt32:
      compare(int32_t{});
      break;
    case DType::kInt64:
      compare(int64_t{});
      break;
    case DType::kUint8:
      compare(uint8_t{});
      break;
    case DType::kUint16:
      compare(uint16_t{});
      break;
    case DType::kUint32:
      compare(uint32_t{});
      break;
    case DType::kUint64:
      compare(uint64_t{});
      break;
    case DType::kBool:
      compare(bool{});
      break;
    default:
      return Unimplemented("output '{}' is {}", name, Name(expected.dtype()));
  }
  if (differences.count == 0) return absl::OkStatus();
  return InvalidArgument("output '{}' {} differs: {}, expected {}; {} of {} elements beyond rtol {:g}, atol {:g}", name,
                         Place(differences.first, expected.shape()), differences.actual, differences.expected,
                         differences.count, expected.elements(), rtol, options.atol);
}

CheckReport CheckCase(const std::string& folder, const CheckOptions& options) {
  CheckReport report;
  const Status status = CheckAll(folder, options, report);
  report.passed = status.ok();
  report.message = std::string(Message(status));
  report.unsupported = status.code() == absl::StatusCode::kUnimplemented;
  return report;
}

}  // namespace rivulet::onnx
