#include "serving/open_inference.h"

#include <algorithm>
#include <cstring>

#include "engine/base/nearest.h"
#include "engine/base/shown_text.h"

namespace rivulet {
namespace {

using Contents = inference::InferTensorContents;
using Given = inference::ModelInferRequest::InferInputTensor;

constexpr char kPlatform[] = "rivulet";

template <typename Field>
std::string_view BytesOf(const Field& field) {
  return {reinterpret_cast<const char*>(field.data()), static_cast<size_t>(field.size()) * sizeof(*field.data())};
}

// Values of a wider field, one by one; those outside the narrower type's range are refused.
template <typename To, typename Field>
Status Narrow(const Field& field, std::string& to) {
  to.reserve(static_cast<size_t>(field.size()) * sizeof(To));
  for (const auto wide : field) {
    const To value = static_cast<To>(wide);
    if (static_cast<std::remove_cvref_t<decltype(wide)>>(value) != wide)
      return InvalidArgument("the value {} does not fit the type", wide);
    to.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  return absl::OkStatus();
}

int FilledFields(const Contents& contents) {
  int filled = 0;
  for (const int size : {contents.bool_contents_size(), contents.int_contents_size(), contents.int64_contents_size(),
                         contents.uint_contents_size(), contents.uint64_contents_size(), contents.fp32_contents_size(),
                         contents.fp64_contents_size(), contents.bytes_contents_size()})
    filled += size > 0 ? 1 : 0;
  return filled;
}

StatusOr<std::string_view> ValuesOf(const Contents& contents, DType dtype, std::deque<std::string>& made) {
  if (FilledFields(contents) > 1) return InvalidArgument("values stand in several fields");
  std::string_view found;
  Status status;
  const auto make = [&](auto fill) {
    made.emplace_back();
    status = fill(made.back());
    found = made.back();
  };
  switch (dtype) {
    case DType::kFloat32:
      found = BytesOf(contents.fp32_contents());
      break;
    case DType::kFloat64:
      found = BytesOf(contents.fp64_contents());
      break;
    case DType::kInt32:
      found = BytesOf(contents.int_contents());
      break;
    case DType::kInt64:
      found = BytesOf(contents.int64_contents());
      break;
    case DType::kUint32:
      found = BytesOf(contents.uint_contents());
      break;
    case DType::kUint64:
      found = BytesOf(contents.uint64_contents());
      break;
    case DType::kBool:
      found = BytesOf(contents.bool_contents());
      break;
    case DType::kInt8:
      make([&](std::string& to) { return Narrow<int8_t>(contents.int_contents(), to); });
      break;
    case DType::kInt16:
      make([&](std::string& to) { return Narrow<int16_t>(contents.int_contents(), to); });
      break;
    case DType::kUint8:
      make([&](std::string& to) { return Narrow<uint8_t>(contents.uint_contents(), to); });
      break;
    case DType::kUint16:
      make([&](std::string& to) { return Narrow<uint16_t>(contents.uint_contents(), to); });
      break;
    case DType::kString:
      make([&](std::string& to) {
        for (const std::string& element : contents.bytes_contents()) AppendBytesElement(element, to);
        return absl::OkStatus();
      });
      break;
    default:
      return InvalidArgument("{} has no field of values; send them in raw_input_contents", WireName(dtype));
  }
  RIVULET_RETURN_IF_ERROR(status);
  if (found.empty() && FilledFields(contents) > 0)
    return InvalidArgument("the values are not in the field of {}", WireName(dtype));
  return found;
}

void PutValues(const TensorView& value, Contents& contents) {
  const auto put = [&]<typename T>(T, auto* field) {
    const auto values = value.flat<const T>();
    field->Add(values.begin(), values.end());
  };
  switch (value.dtype) {
    case DType::kFloat32:
      return put(float{}, contents.mutable_fp32_contents());
    case DType::kFloat64:
      return put(double{}, contents.mutable_fp64_contents());
    case DType::kInt32:
      return put(int32_t{}, contents.mutable_int_contents());
    case DType::kInt64:
      return put(int64_t{}, contents.mutable_int64_contents());
    case DType::kBool:
      return put(bool{}, contents.mutable_bool_contents());
    case DType::kUint8:
      return put(uint8_t{}, contents.mutable_uint_contents());
    case DType::kInt8:
      return put(int8_t{}, contents.mutable_int_contents());
    default:
      return;
  }
}

bool HasField(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
    case DType::kFloat64:
    case DType::kInt32:
    case DType::kInt64:
    case DType::kBool:
    case DType::kUint8:
    case DType::kInt8:
      return true;
    default:
      return false;
  }
}

}  // namespace

StatusOr<InferenceCall> CallOf(const inference::ModelInferRequest& request, std::deque<std::string>& made) {
  InferenceCall call{.model = request.model_name(), .version = request.model_version(), .id = request.id()};
  const int raw = request.raw_input_contents_size();
  if (raw > 0 && raw != request.inputs_size())
    return InvalidArgument("the request has {} inputs and {} raw_input_contents; give one for each input, or none",
                           request.inputs_size(), raw);
  // An input costs more memory here than on the wire; no model has so many.
  constexpr int kMostInputs = 1024, kMostDims = 64;
  if (request.inputs_size() > kMostInputs || request.outputs_size() > kMostInputs)
    return InvalidArgument("the request has more than {} inputs or outputs", kMostInputs);
  for (int i = 0; i < request.inputs_size(); ++i) {
    const Given& given = request.inputs(i);
    WireTensor tensor{.name = given.name(), .dtype = WireType(given.datatype())};
    if (tensor.dtype == DType::kInvalid)
      return InvalidArgument("the input '{}' has the datatype '{}', which there is not", Shortened(given.name()),
                             Shortened(given.datatype()));
    if (given.shape_size() > kMostDims)
      return InvalidArgument("the input '{}' has more than {} dimensions", Shortened(given.name()), kMostDims);
    tensor.shape.assign(given.shape().begin(), given.shape().end());
    if (raw > 0) {
      if (given.has_contents() && FilledFields(given.contents()) > 0)
        return InvalidArgument("the input '{}' has values in contents and in raw_input_contents",
                               Shortened(given.name()));
      tensor.bytes = request.raw_input_contents(i);
    } else {
      const StatusOr<std::string_view> values = ValuesOf(given.contents(), tensor.dtype, made);
      if (!values.ok()) return Annotate(values.status(), fmt::format("the input '{}'", Shortened(given.name())));
      tensor.bytes = *values;
    }
    call.inputs.push_back(std::move(tensor));
  }
  for (const auto& output : request.outputs()) call.outputs.push_back(output.name());
  return call;
}

void ToMessage(const InferenceAnswer& answer, const inference::ModelInferRequest& request,
               inference::ModelInferResponse* response) {
  response->set_model_name(request.model_name());
  response->set_model_version(fmt::format("{}", answer.version.pointed.version));
  response->set_id(request.id());
  const bool raw = request.raw_input_contents_size() > 0 ||
                   !std::ranges::all_of(answer.outputs, [](const auto& out) { return HasField(out.value.dtype); });
  for (const InferenceOutput& output : answer.outputs) {
    auto* const tensor = response->add_outputs();
    tensor->set_name(std::string(output.name));
    tensor->set_datatype(std::string(WireName(output.value.dtype)));
    for (const int64_t dim : output.value.shape.dims()) tensor->add_shape(dim);
    if (raw) {
      response->add_raw_output_contents(output.value.data, output.value.bytes());
    } else {
      PutValues(output.value, *tensor->mutable_contents());
    }
  }
}

Status Describe(const ModelServer& server, const std::string& name, const std::string& version,
                inference::ModelMetadataResponse* response) {
  RIVULET_ASSIGN_OR_RETURN(const Route route, server.Choose(name, version, ""));
  RIVULET_ASSIGN_OR_RETURN(const auto versions, server.Versions(name));
  response->set_name(name);
  response->set_platform(kPlatform);
  for (const VersionStatus& status : versions)
    if (status.state == VersionState::kAvailable) response->add_versions(fmt::format("{}", status.version.version));
  const auto describe = [](auto* tensor, const std::string& of, const TensorSpec& row) {
    tensor->set_name(of);
    tensor->set_datatype(std::string(WireName(row.dtype)));
    tensor->add_shape(-1);
    for (const int64_t dim : row.shape.dims()) tensor->add_shape(dim);
  };
  for (const ServedInput& input : route.version->plan->inputs())
    describe(response->add_inputs(), input.name, input.row);
  for (const ServedOutput& output : route.version->plan->outputs())
    describe(response->add_outputs(), output.name, output.row);
  const PointedVersion& pointed = route.version->pointed;
  auto& properties = *response->mutable_properties();
  properties["run_id"] = pointed.run_id;
  properties["round"] = fmt::format("{}", pointed.round);
  properties["digest"] = pointed.digest;
  return absl::OkStatus();
}

Status Describe(const ModelServer& server, const std::string& name, const std::string& version, int64_t max_batch,
                inference::ModelConfigResponse* response) {
  RIVULET_ASSIGN_OR_RETURN(const Route route, server.Choose(name, version, ""));
  inference::ModelConfig* const config = response->mutable_config();
  config->set_name(name);
  config->set_platform(kPlatform);
  config->set_backend(kPlatform);
  config->set_max_batch_size(static_cast<int32_t>(max_batch));
  const auto describe = [](auto* tensor, const std::string& of, const TensorSpec& row) {
    tensor->set_name(of);
    const std::string type = row.dtype == DType::kString ? "STRING" : std::string(WireName(row.dtype));
    inference::DataType number = inference::TYPE_INVALID;
    inference::DataType_Parse("TYPE_" + type, &number);
    tensor->set_data_type(number);
    for (const int64_t dim : row.shape.dims()) tensor->add_dims(dim);
  };
  for (const ServedInput& input : route.version->plan->inputs()) describe(config->add_input(), input.name, input.row);
  for (const ServedOutput& output : route.version->plan->outputs())
    describe(config->add_output(), output.name, output.row);
  return absl::OkStatus();
}

void Describe(const ModelServer& server, const inference::RepositoryIndexRequest& request,
              inference::RepositoryIndexResponse* response) {
  for (const std::string& name : server.Names()) {
    const auto versions = server.Versions(name);
    if (!versions.ok()) continue;
    for (const VersionStatus& status : *versions) {
      const bool ready = status.state == VersionState::kAvailable;
      if (request.ready() && !ready) continue;
      auto* const model = response->add_models();
      model->set_name(name);
      model->set_version(fmt::format("{}", status.version.version));
      const bool loading = status.state == VersionState::kLoading || status.state == VersionState::kWarming;
      const bool unloading = status.state == VersionState::kDraining;
      model->set_state(ready ? "READY" : loading ? "LOADING" : unloading ? "UNLOADING" : "UNAVAILABLE");
      model->set_reason(status.reason);
    }
  }
}

Status Describe(const ModelServer& server, const inference::ModelStatisticsRequest& request,
                inference::ModelStatisticsResponse* response) {
  const auto names = server.Names();
  if (!request.name().empty() && std::ranges::count(names, request.name()) == 0)
    return NotFound("no model '{}' is served.{}", Shortened(request.name()), DidYouMean(request.name(), names));
  std::map<std::pair<std::string, int64_t>, inference::ModelStatistics*> by_version;
  for (const auto& of_label : server.Counts()) {
    const std::string version = fmt::format("{}", of_label.version);
    if (!request.name().empty() && of_label.name != request.name()) continue;
    if (!request.version().empty() && version != request.version()) continue;
    auto*& stats = by_version[{of_label.name, of_label.version}];
    if (stats == nullptr) stats = response->add_model_stats();
    stats->set_name(of_label.name);
    stats->set_version(version);
    const ModelCounts& counts = *of_label.counts;
    const auto unsigned_of = [](const std::atomic<int64_t>& count) { return static_cast<uint64_t>(count.load()); };
    const auto add = [](inference::StatisticDuration* to, uint64_t count, uint64_t ns) {
      to->set_count(to->count() + count);
      to->set_ns(to->ns() + ns);
    };
    stats->set_inference_count(stats->inference_count() + unsigned_of(counts.examples));
    stats->set_execution_count(stats->execution_count() + unsigned_of(counts.answered));
    auto* const infer = stats->mutable_inference_stats();
    add(infer->mutable_success(), unsigned_of(counts.answered), unsigned_of(counts.answered_ns));
    add(infer->mutable_fail(), unsigned_of(counts.failed), unsigned_of(counts.failed_ns));
    add(infer->mutable_queue(), unsigned_of(counts.answered), unsigned_of(counts.queue_ns));
    add(infer->mutable_compute_infer(), unsigned_of(counts.answered), unsigned_of(counts.compute_ns));
  }
  return absl::OkStatus();
}

void Describe(inference::ServerMetadataResponse* response) {
  response->set_name("rivulet");
  for (const char* const extension : {"binary_tensor_data", "model_configuration", "model_repository", "statistics"})
    response->add_extensions(extension);
}

}  // namespace rivulet
