// What a federation is told: scenarios by its user, plans by a coordinator, updates and partials by clients and sites,
// and the messages that carry them.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "coordinator/intake/site_partial.h"
#include "engine/graphdef/graph_def.h"
#include "engine/io/crc32c.h"
#include "engine/presets/presets.h"
#include "federated/aggregation/aggregation.h"
#include "federated/algorithms/algorithm.h"
#include "federated/local_rules/own_rule.h"
#include "federated/local_rules/rule_graph.h"
#include "federated/plan/plan.h"
#include "federated/scenario/scenario.h"
#include "federated/transport/chunk_messages.h"
#include "federated/transport/messages.h"
#include "federated/updates/task_records.h"
#include "federated/updates/update_message.h"
#include "proto/federated/update.pb.h"
#include "tests/fuzz/target.h"

namespace rivulet::fuzz {
namespace {

constexpr char kScenario[] = R"([run]
name = "tiny"
rounds = 4

[model]
preset = "logistic_regression"

[data]
train = "train.tfrecord"
partition = { kind = "dirichlet", clients = 6, alpha = 0.25 }

[client]
epochs = 2
batch_size = 5
optimizer = { kind = "momentum", learning_rate = 0.1, momentum = 0.9 }

[algorithm]
name = "fedprox"
mu = 0.5

[server]
clients_per_round = 3
)";

constexpr char kLayers[] = R"([model]
input = { shape = [4], kind = "values" }
classes = 3
[[model.layers]]
kind = "dense"
units = 8
activation = "relu"
[[model.layers]]
kind = "dense"
units = 3
[data]
train = "t"
[data.partition]
clients = 2
[server]
clients_per_round = 1
)";

const Registered scenario{{"scenario",
                           [](std::string_view bytes) {
                             const auto read = Scenario::Parse(std::string(bytes), "s.toml", "/folder");
                             if (!read.ok()) return false;
                             // Its canonical form is the same scenario.
                             const std::string toml = read->ToToml();
                             const auto again = Scenario::Parse(toml, "s.toml", "/folder");
                             if (!again.ok() || again->ToToml() != toml) std::abort();
                             return true;
                           },
                           [] {
                             return std::vector<std::string>{kScenario, kLayers};
                           }}};

const Registered override_value{{"override",
                                 [](std::string_view bytes) {
                                   const size_t end = std::min(bytes.find('='), bytes.size());
                                   const std::string key(bytes.substr(0, end));
                                   const std::string value(bytes.substr(std::min(end + 1, bytes.size())));
                                   return Scenario::Parse(kScenario, "s.toml", "/folder", {{key, value}}).ok();
                                 },
                                 [] {
                                   return std::vector<std::string>{"client.optimizer.learning_rate=0.1",
                                                                   "data.partition={kind=\"iid\", clients=7}"};
                                 }}};

std::string SomePlan(const char* algorithm) {
  Scenario scenario;
  scenario.run.name = "tiny";
  scenario.model.preset = "logistic_regression";
  scenario.data.partition.clients = 4;
  scenario.server.clients_per_round = 2;
  scenario.algorithm.name = algorithm;
  return *BuildPlan(scenario, *Preset("logistic_regression"));
}

const Registered plan{{"plan", [](std::string_view bytes) { return Plan::Open(std::string(bytes)).ok(); },
                       [] {
                         return std::vector{SomePlan("fedavg"), SomePlan("fedadam")};
                       },
                       MessageFrom(0)}};

constexpr char kRule[] = R"(mu = 0.1  # a setting
memory.m = 0.5 * memory.m + grad
gradient = where(norm(memory.m) < 1e3, memory.m, 0) + mu * (params - base) ^ 2
loss = loss + mu / 2 * sum(abs(params))
end:
state.h = -params / (steps * learning_rate) + round
)";

const Registered rule{{"rule",
                       [](std::string_view bytes) {
                         const auto graph = BuildRule(bytes);
                         return graph.ok() && OwnRule::Open(SerializeGraph(*graph)).ok();
                       },
                       [] {
                         return std::vector<std::string>{kRule, "gradient = grad\n"};
                       }}};

const Registered rule_graph{{"rule_graph", [](std::string_view bytes) { return OwnRule::Open(bytes).ok(); },
                             [] { return std::vector{SerializeGraph(*BuildRule(kRule))}; }, MessageFrom(0)}};

const Registered update{{"update", [](std::string_view bytes) { return ParseUpdate(bytes).ok(); },
                         [] {
                           rivulet::proto::Update message;
                           rivulet::proto::UpdatePart* const part = message.add_parts();
                           part->set_name("delta");
                           part->set_data(std::string(24, '\x3f'));
                           (*message.mutable_scalars())["examples"] = 600;
                           return std::vector{message.SerializeAsString()};
                         },
                         MessageFrom(0)}};

AggregationSpec SomeSpec() {
  AggregationSpec spec;
  spec.parts = {{.elements = 3}};
  spec.updates_per_version = 4;
  spec.scalars = {{.name = "train_loss"}};
  return spec;
}

// A site's message of two tasks: their records, then the partial.
std::string SomeSitePartial() {
  const AggregationSpec spec = SomeSpec();
  auto aggregation = *Aggregation::Create(spec);
  std::vector<TaskRecord> records;
  const float delta[] = {1, 2, 3};
  for (const char* task : {"t0", "t1"}) {
    const PartView part{.name = "delta", .data = std::as_bytes(std::span(delta))};
    const Scalars declared = {{"examples", 10}, {"steps", 6}, {"train_loss", 0.5}};
    TaskRecord record;
    record.task = task;
    record.declared = declared;
    const auto taken = aggregation->Take({record.task, 4, {&part, 1}, declared}, *WeightsOf(spec, declared, {}));
    record.update_norm = taken->norm;
    records.push_back(std::move(record));
  }
  std::string bytes = WriteTaskRecords(records);
  const Status written = WritePartial(spec, aggregation->Extract(4), [&](std::span<const std::byte> piece) {
    bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    return absl::OkStatus();
  });
  return written.ok() ? bytes : "";
}

bool ReadPartial(std::string_view bytes) {
  const AggregationSpec spec = SomeSpec();
  return ReadSitePartial(std::as_bytes(std::span(bytes.data(), bytes.size())), spec, 4).ok();
}

const Registered partial{{"site_partial", ReadPartial, [] { return std::vector{SomeSitePartial()}; }}};

uint32_t U32(const std::string& bytes, size_t at) {
  uint32_t value = 0;
  if (at + 4 <= bytes.size()) std::memcpy(&value, bytes.data() + at, 4);
  return value;
}

void Seal(std::string& bytes, size_t begin, size_t end) {
  if (begin > end || end > bytes.size() || bytes.size() - end < 4) return;
  const uint32_t crc = Crc32c(std::as_bytes(std::span(bytes).subspan(begin, end - begin)));
  std::memcpy(bytes.data() + end, &crc, 4);
}

// One of the two messages, or what stands behind them; their lengths are made right.
std::string ChangedPartial(std::string_view bytes, std::mt19937& random, const ChangeBytes& change) {
  const std::string whole(bytes);
  const size_t records = 12 + size_t{U32(whole, 8)};
  const size_t header = records + 12 + size_t{U32(whole, records + 8)};
  if (header > whole.size()) return change(bytes);
  std::string task_records = whole.substr(12, records - 12), head = whole.substr(records + 12, header - records - 12);
  std::string rest = whole.substr(header);
  switch (random() % 3) {
    case 0:
      task_records = ChangedMessage(task_records, random, change);
      break;
    case 1:
      head = ChangedMessage(head, random, change);
      break;
    default:
      rest = change(rest);
  }
  const auto framed = [](std::string magic, const std::string& message) {
    const auto size = static_cast<uint32_t>(message.size());
    return magic.append(reinterpret_cast<const char*>(&size), sizeof(size)) + message;
  };
  return framed(whole.substr(0, 8), task_records) + framed(whole.substr(records, 8), head) + rest;
}

// The same with every checksum made right where the lengths say that one stands, so that what is behind them is tried.
const Registered partial_sealed{{"site_partial_sealed",
                                 [](std::string_view input) {
                                   std::string bytes(input);
                                   const size_t records = 12 + size_t{U32(bytes, 8)};
                                   if (records < bytes.size()) {
                                     const size_t header = records + 12 + size_t{U32(bytes, records + 8)};
                                     Seal(bytes, records, header);
                                     const size_t section = header + 4;
                                     const size_t name = section + 4 + size_t{U32(bytes, section)} + 8;
                                     Seal(bytes, section, name);
                                     if (bytes.size() >= 4) Seal(bytes, name + 4, bytes.size() - 4);
                                   }
                                   return ReadPartial(bytes);
                                 },
                                 [] { return std::vector{SomeSitePartial()}; }, ChangedPartial}};

// The first byte says which message. What is read is written and read again as the same.
template <typename Struct, typename Message>
bool ReadMessage(std::string_view bytes) {
  Message message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return false;
  const StatusOr<Struct> read = FromMessage(message);
  if (!read.ok()) return false;
  Message written;
  ToMessage(*read, &written);
  const StatusOr<Struct> again = FromMessage(written);
  if (!again.ok()) std::abort();
  Message twice;
  ToMessage(*again, &twice);
  if (twice.SerializeAsString().size() != written.SerializeAsString().size()) std::abort();
  return true;
}

const Registered messages{{"messages",
                           [](std::string_view bytes) {
                             if (bytes.empty()) return false;
                             const std::string_view rest = bytes.substr(1);
                             switch (static_cast<unsigned char>(bytes[0]) % 7) {
                               case 0:
                                 return ReadMessage<PollRequest, rpc::PollRequestProto>(rest);
                               case 1:
                                 return ReadMessage<PollReply, rpc::PollReplyProto>(rest);
                               case 2:
                                 return ReadMessage<Submission, rpc::SubmissionProto>(rest);
                               case 3:
                                 return ReadMessage<Task, rpc::TaskProto>(rest);
                               case 4:
                                 return ReadMessage<TaskFailure, rpc::TaskFailureProto>(rest);
                               case 5:
                                 return ReadMessage<SubmitResult, rpc::SubmitResultProto>(rest);
                               default:
                                 return ReadMessage<BlobId, rpc::BlobIdProto>(rest);
                             }
                           },
                           [] {
                             std::vector<std::string> seeds;
                             PollRequest request;
                             request.caller.name = "client";
                             request.caller.session = 7;
                             request.capabilities.datasets = {{"train", 100}};
                             request.working_on = {{"task", true}};
                             rpc::PollRequestProto poll;
                             ToMessage(request, &poll);
                             seeds.push_back(std::string(1, '\0') + poll.SerializeAsString());
                             Task task;
                             task.id = "run/1/client";
                             task.client_id = "client";
                             task.plan = Sha256Of("plan");
                             task.inputs = {{"model", {BlobId::Form::kModel, Sha256Of("model")}}};
                             PollReply reply;
                             reply.tasks = {task};
                             rpc::PollReplyProto replied;
                             ToMessage(reply, &replied);
                             seeds.push_back('\1' + replied.SerializeAsString());
                             Submission submission;
                             submission.task = "run/1/client";
                             submission.bytes = 1000;
                             rpc::SubmissionProto submitted;
                             ToMessage(submission, &submitted);
                             seeds.push_back('\2' + submitted.SerializeAsString());
                             return seeds;
                           },
                           MessageFrom(1)}};

// In slices of `size` bytes, as a connection may cut it.
grpc::ByteBuffer BufferOf(std::string_view bytes, size_t size) {
  std::vector<grpc::Slice> slices;
  for (; !bytes.empty(); bytes.remove_prefix(std::min(size, bytes.size()))) {
    slices.emplace_back(bytes.data(), std::min(size, bytes.size()));
  }
  return {slices.data(), slices.size()};
}

std::string Joined(const ArrivedBytes& arrived) {
  std::string joined;
  for (const auto piece : arrived.pieces()) joined.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  if (std::ssize(joined) != arrived.size() || arrived.Crc() != Crc32c(joined)) std::abort();
  return joined;
}

// What is read by hand from gRPC's slices is what protobuf reads. The first byte says how long a slice is.
const Registered chunks{{"chunk_messages",
                         [](std::string_view bytes) {
                           if (bytes.empty()) return false;
                           const size_t size = 1 + static_cast<unsigned char>(bytes[0]) % 64;
                           const std::string rest(bytes.substr(1));
                           grpc::ByteBuffer down = BufferOf(rest, size), up = BufferOf(rest, size);
                           ArrivedDownload download;
                           rpc::ChunkProto chunk;
                           const bool is_chunk = chunk.ParseFromString(rest);
                           if (download.Take(down).ok() != is_chunk) std::abort();
                           const std::string& sent = chunk.zstd().empty() ? chunk.data() : chunk.zstd();
                           if (is_chunk && (Joined(download.data) != sent || download.crc != chunk.crc() ||
                                            download.total_bytes != chunk.total_bytes())) {
                             std::abort();
                           }
                           ArrivedSubmit submit;
                           rpc::SubmitMessageProto message;
                           const bool is_submit = message.ParseFromString(rest);
                           if (submit.Take(up).ok() != is_submit) std::abort();
                           const bool packed = message.has_zstd();
                           if (is_submit && submit.has_chunk != (packed || message.has_chunk())) std::abort();
                           if (is_submit && submit.has_chunk &&
                               Joined(submit.data) != (packed ? message.zstd() : message.chunk())) {
                             std::abort();
                           }
                           // What a frame unpacks to is at most what a message carries, whatever it says.
                           for (ArrivedBytes* data : {&download.data, &submit.data}) {
                             if (data->Unpack().ok() && Joined(*data).size() > size_t{1} << 20) std::abort();
                           }
                           return is_chunk || is_submit;
                         },
                         [] {
                           rpc::ChunkProto chunk;
                           chunk.set_total_bytes(1'000);
                           chunk.set_data("some bytes of a model");
                           chunk.set_crc(Crc32c(chunk.data()));
                           rpc::SubmitMessageProto header, piece;
                           header.mutable_header()->mutable_caller()->set_name("client");
                           header.mutable_header()->mutable_submission()->set_task("run/1/client");
                           piece.set_chunk("some bytes of an update");
                           std::vector all{'\2' + chunk.SerializeAsString(), '\1' + header.SerializeAsString(),
                                           '\7' + piece.SerializeAsString()};
                           const std::string zeros(1'000, '\0');
                           for (const grpc::ByteBuffer& buffer :
                                {DownloadChunk(1'000, std::as_bytes(std::span(zeros)), nullptr, Packing::kZstd),
                                 UploadChunk(std::as_bytes(std::span(zeros)), nullptr, Packing::kZstd)}) {
                             grpc::Slice slice;
                             if (!buffer.DumpToSingleSlice(&slice).ok()) std::abort();
                             all.push_back('\3' + std::string(slice.begin(), slice.end()));
                           }
                           return all;
                         },
                         MessageFrom(1)}};

}  // namespace
}  // namespace rivulet::fuzz
