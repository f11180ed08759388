#include "serving/tensorflow_serving.h"

#include <algorithm>
#include <cstring>

#include "engine/base/json.h"
#include "engine/base/shown_text.h"
#include "proto/serving/tensorflow_serving.pb.h"

namespace rivulet {
namespace {

namespace tfs = tensorflow::serving;

// The type's values are in a separate field; the last one is repeated to fill the shape.
template <typename To, typename Field>
Status Fill(const Field& field, int64_t elements, std::string& to) {
  if (field.size() > elements) return InvalidArgument("there are {} values for {} elements", field.size(), elements);
  to.reserve(static_cast<size_t>(elements) * sizeof(To));
  for (int64_t i = 0; i < elements; ++i) {
    const To value =
        field.empty() ? To{} : static_cast<To>(field[static_cast<int>(std::min<int64_t>(i, field.size() - 1))]);
    to.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  return absl::OkStatus();
}

// No batch has more; the shape itself is compared with the model's later.
constexpr int64_t kMostElements = int64_t{1} << 31;

StatusOr<int64_t> ElementsOf(std::span<const int64_t> shape) {
  int64_t elements = 1;
  for (const int64_t dim : shape) {
    if (dim < 0 || (dim > 0 && elements > kMostElements / dim))
      return InvalidArgument("the shape is none, or too large");
    elements *= dim;
  }
  return elements;
}

StatusOr<std::string_view> ValuesOf(const proto::TensorProto& tensor, DType dtype, std::span<const int64_t> shape,
                                    size_t allowed, std::deque<std::string>& made) {
  if (!tensor.tensor_content().empty()) return std::string_view(tensor.tensor_content());
  RIVULET_ASSIGN_OR_RETURN(const int64_t elements, ElementsOf(shape));
  // A few bytes may be repeated to many; at most as many as a batch could have.
  if (dtype != DType::kString && static_cast<uint64_t>(elements) * SizeOf(dtype) > allowed)
    return InvalidArgument("the shape has {} elements, more than the largest batch", elements);
  made.emplace_back();
  std::string& to = made.back();
  Status status;
  switch (dtype) {
    case DType::kFloat32:
      status = Fill<float>(tensor.float_val(), elements, to);
      break;
    case DType::kInt64:
      status = Fill<int64_t>(tensor.int64_val(), elements, to);
      break;
    case DType::kInt32:
      status = Fill<int32_t>(tensor.int_val(), elements, to);
      break;
    case DType::kUint8:
      status = Fill<uint8_t>(tensor.int_val(), elements, to);
      break;
    case DType::kFloat16:
    case DType::kBFloat16:
      status = Fill<uint16_t>(tensor.half_val(), elements, to);
      break;
    case DType::kString:
      for (const std::string& value : tensor.string_val()) AppendBytesElement(value, to);
      break;
    default:
      return InvalidArgument("the type {} is none that an input takes", Name(dtype));
  }
  RIVULET_RETURN_IF_ERROR(status);
  return std::string_view(to);
}

template <typename Info>
void DescribeTensor(const std::string& name, const TensorSpec& row, Info& info) {
  info.set_name(name + ":0");
  info.set_dtype(static_cast<proto::DataType>(row.dtype));
  info.mutable_tensor_shape()->add_dim()->set_size(-1);
  for (const int64_t dim : row.shape.dims()) info.mutable_tensor_shape()->add_dim()->set_size(dim);
}

tfs::SignatureDef SignatureOf(const ServedPlan& plan) {
  tfs::SignatureDef signature;
  for (const ServedInput& input : plan.inputs())
    DescribeTensor(input.name, input.row, (*signature.mutable_inputs())[input.name]);
  for (const ServedOutput& output : plan.outputs())
    DescribeTensor(output.name, output.row, (*signature.mutable_outputs())[output.name]);
  signature.set_method_name("tensorflow/serving/predict");
  return signature;
}

tfs::ModelVersionStatus::State StateOf(VersionState state) {
  switch (state) {
    case VersionState::kLoading:
    case VersionState::kWarming:
      return tfs::ModelVersionStatus::LOADING;
    case VersionState::kAvailable:
      return tfs::ModelVersionStatus::AVAILABLE;
    case VersionState::kDraining:
      return tfs::ModelVersionStatus::UNLOADING;
    default:
      return tfs::ModelVersionStatus::END;
  }
}

tfs::ModelSpec SpecOf(const std::string& model, const std::string& version) {
  tfs::ModelSpec spec;
  spec.set_name(model);
  if (!version.empty()) spec.set_version_label(version);  // VersionOf reads it back; a number is no label
  return spec;
}

}  // namespace

Status CheckSignature(std::string_view name) {
  if (name.empty() || name == kSignature) return absl::OkStatus();
  return InvalidArgument("there is no signature '{}'; a served model has '{}'", Shortened(name), kSignature);
}

std::string VersionOf(const tfs::ModelSpec& spec) {
  if (spec.has_version()) return fmt::format("{}", spec.version().value());
  return spec.version_label();
}

StatusOr<InferenceCall> CallOf(const tfs::PredictRequest& request, std::deque<std::string>& made, size_t most_made) {
  RIVULET_RETURN_IF_ERROR(CheckSignature(request.model_spec().signature_name()));
  InferenceCall call{.model = request.model_spec().name(), .version = VersionOf(request.model_spec())};
  constexpr size_t kMostInputs = 1024;
  if (request.inputs().size() > kMostInputs) return InvalidArgument("the request has more than {} inputs", kMostInputs);
  size_t left = most_made;
  for (const auto& [name, value] : request.inputs()) {
    WireTensor tensor{.name = name};
    const StatusOr<DType> dtype = DTypeFromNumber(value.dtype());
    if (!dtype.ok()) return Annotate(dtype.status(), fmt::format("the input '{}'", Shortened(name)));
    tensor.dtype = *dtype;
    for (const auto& dim : value.tensor_shape().dim()) tensor.shape.push_back(dim.size());
    const StatusOr<std::string_view> bytes = ValuesOf(value, tensor.dtype, tensor.shape, left, made);
    if (!bytes.ok()) return Annotate(bytes.status(), fmt::format("the input '{}'", Shortened(name)));
    tensor.bytes = *bytes;
    left -= std::min(left, bytes->size());
    call.inputs.push_back(std::move(tensor));
  }
  call.outputs.assign(request.output_filter().begin(), request.output_filter().end());
  return call;
}

void ToMessage(const InferenceAnswer& answer, const tfs::PredictRequest& request, tfs::PredictResponse* response) {
  response->mutable_model_spec()->set_name(request.model_spec().name());
  response->mutable_model_spec()->mutable_version()->set_value(answer.version.pointed.version);
  response->mutable_model_spec()->set_signature_name(kSignature);
  for (const InferenceOutput& output : answer.outputs) {
    proto::TensorProto& tensor = (*response->mutable_outputs())[std::string(output.name)];
    tensor.set_dtype(static_cast<proto::DataType>(output.value.dtype));
    for (const int64_t dim : output.value.shape.dims()) tensor.mutable_tensor_shape()->add_dim()->set_size(dim);
    if (output.value.dtype == DType::kFloat32) {
      const auto values = output.value.flat<const float>();
      tensor.mutable_float_val()->Add(values.begin(), values.end());
    } else {
      tensor.set_tensor_content(output.value.data, output.value.bytes());
    }
  }
}

Status Describe(const ModelServer& server, const tfs::ModelSpec& spec, tfs::GetModelMetadataResponse* response) {
  RIVULET_ASSIGN_OR_RETURN(const Route route, server.Choose(spec.name(), VersionOf(spec), ""));
  response->mutable_model_spec()->set_name(spec.name());
  response->mutable_model_spec()->mutable_version()->set_value(route.version->pointed.version);
  tfs::SignatureDefMap map;
  (*map.mutable_signature_def())[kSignature] = SignatureOf(*route.version->plan);
  (*response->mutable_metadata())["signature_def"].PackFrom(map);
  return absl::OkStatus();
}

// All versions; for a label or number that one alone.
Status Describe(const ModelServer& server, const tfs::ModelSpec& spec, tfs::GetModelStatusResponse* response) {
  RIVULET_ASSIGN_OR_RETURN(auto versions, server.Versions(spec.name()));
  const std::string version = VersionOf(spec);
  std::ranges::reverse(versions);
  for (const VersionStatus& status : versions) {
    const bool asked = version.empty() || version == fmt::format("{}", status.version.version) ||
                       std::ranges::count(status.labels, version) > 0;
    if (!asked) continue;
    auto* const entry = response->add_model_version_status();
    entry->set_version(status.version.version);
    entry->set_state(StateOf(status.state));
    entry->mutable_status()->set_error_code(
        status.state == VersionState::kFailed ? static_cast<int>(absl::StatusCode::kFailedPrecondition) : 0);
    entry->mutable_status()->set_error_message(status.reason);
  }
  if (response->model_version_status_size() == 0)
    return NotFound("'{}' has no version or label '{}'", spec.name(), Shortened(version));
  return absl::OkStatus();
}

StatusOr<std::string> MetadataText(const ModelServer& server, const std::string& model, const std::string& version) {
  RIVULET_ASSIGN_OR_RETURN(const Route route, server.Choose(model, version, ""));
  const tfs::SignatureDef signature = SignatureOf(*route.version->plan);
  const auto tensors = [](const auto& map) {
    Json all = Json::Object();
    for (const auto& [name, info] : map) {
      Json dims = Json::Array();
      for (const auto& dim : info.tensor_shape().dim())
        dims.Append({{"size", fmt::format("{}", dim.size())}, {"name", ""}});
      Json shape = {{"unknown_rank", false}};
      shape["dim"] = std::move(dims);
      Json one = {{"dtype", proto::DataType_Name(info.dtype())}, {"name", info.name()}};
      one["tensor_shape"] = std::move(shape);
      all[name] = std::move(one);
    }
    return all;
  };
  Json described = {{"method_name", signature.method_name()}};
  described["inputs"] = tensors(signature.inputs());
  described["outputs"] = tensors(signature.outputs());
  Json json = {
      {"model_spec",
       {{"name", model}, {"signature_name", ""}, {"version", fmt::format("{}", route.version->pointed.version)}}}};
  json["metadata"]["signature_def"]["signature_def"][kSignature] = std::move(described);
  return json.Dump();
}

StatusOr<std::string> StatusText(const ModelServer& server, const std::string& model, const std::string& version) {
  tfs::GetModelStatusResponse response;
  RIVULET_RETURN_IF_ERROR(Describe(server, SpecOf(model, version), &response));
  Json all = Json::Array();
  for (const auto& status : response.model_version_status()) {
    const bool failed = status.status().error_code() != 0;
    all.Append({{"version", fmt::format("{}", status.version())},
                {"state", tfs::ModelVersionStatus::State_Name(status.state())},
                {"status",
                 {{"error_code", failed ? "FAILED_PRECONDITION" : "OK"},
                  {"error_message", status.status().error_message()}}}});
  }
  Json json = Json::Object();
  json["model_version_status"] = std::move(all);
  return json.Dump();
}

}  // namespace rivulet
