#include <cstring>

#include "engine/data/event_file.h"
#include "engine/data/tfrecord.h"
#include "proto/graph/event.pb.h"
#include "proto/graph/hparams.pb.h"

namespace rivulet {
namespace {

template <typename T>
std::optional<double> FirstOf(const std::string& bytes) {
  if (bytes.size() != sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  return static_cast<double>(value);
}

// The value of a tensor with one element. TensorFlow stores it as bytes or, if made from a Python number, in the field
// of its type.
std::optional<double> ScalarOf(const proto::TensorProto& tensor) {
  const std::string& bytes = tensor.tensor_content();
  switch (tensor.dtype()) {
    case proto::DT_FLOAT:
      return tensor.float_val_size() == 1 ? tensor.float_val(0) : FirstOf<float>(bytes);
    case proto::DT_DOUBLE:
      return tensor.double_val_size() == 1 ? tensor.double_val(0) : FirstOf<double>(bytes);
    case proto::DT_INT32:
      return tensor.int_val_size() == 1 ? tensor.int_val(0) : FirstOf<int32_t>(bytes);
    case proto::DT_INT64:
      return tensor.int64_val_size() == 1 ? static_cast<double>(tensor.int64_val(0)) : FirstOf<int64_t>(bytes);
    default:
      return std::nullopt;
  }
}

// Private data of TensorBoard's pages are tensors too, but not numbers of the run.
bool IsNumbers(const std::string& plugin) { return plugin.empty() || plugin == "scalars"; }

void TakeSession(const proto::HParamsPluginData& data, EventFileNumbers& numbers) {
  for (const proto::HParamsSessionStart::Entry& entry : data.session_start_info().hparams()) {
    HyperParameter value = entry.value().string_value();
    if (entry.value().kind_case() == proto::HParamsSessionStart::Value::kNumberValue)
      value = entry.value().number_value();
    if (entry.value().kind_case() == proto::HParamsSessionStart::Value::kBoolValue) value = entry.value().bool_value();
    numbers.hyperparameters.emplace_back(entry.key(), std::move(value));
  }
  const int32_t status = data.session_end_info().status();
  if (status >= 1 && status <= 3) numbers.end = static_cast<SummaryEnd>(status);
}

Status TakeEvent(const proto::Event& event, EventFileNumbers& numbers) {
  if (numbers.first_time == 0) numbers.first_time = event.wall_time();
  numbers.last_time = event.wall_time();
  for (const proto::Summary::Value& value : event.summary().value()) {
    const std::string& plugin = value.metadata().plugin_data().plugin_name();
    if (plugin == "hparams") {
      proto::HParamsPluginData data;
      if (!data.ParseFromString(value.metadata().plugin_data().content()))
        return DataLoss("its HParams data are damaged");
      TakeSession(data, numbers);
      continue;
    }
    std::optional<double> number;
    if (value.value_case() == proto::Summary::Value::kSimpleValue) number = value.simple_value();
    if (value.value_case() == proto::Summary::Value::kTensor && IsNumbers(plugin)) number = ScalarOf(value.tensor());
    if (number) numbers.scalars.push_back({value.tag(), event.step(), event.wall_time(), *number});
  }
  return absl::OkStatus();
}

}  // namespace

StatusOr<EventFileNumbers> ReadEventFile(const std::string& path) {
  RIVULET_ASSIGN_OR_RETURN(const auto reader, RecordReader::Open(path));
  EventFileNumbers numbers;
  std::string record;
  while (true) {
    const StatusOr<bool> more = reader->Next(record);
    // Only a truncated end is tolerated: after a wrong checksum in the middle, the rest cannot be trusted.
    if (!more.ok() && reader->cut_off() && reader->record() > 0) break;
    if (!more.ok()) return more.status();
    if (!*more) break;
    proto::Event event;
    if (!event.ParseFromString(record)) {
      return DataLoss("{}: not an event; TensorBoard's event files hold nothing else", reader->Where());
    }
    RIVULET_RETURN_IF_ERROR(Annotate(TakeEvent(event, numbers), reader->Where()));
  }
  return numbers;
}

}  // namespace rivulet
