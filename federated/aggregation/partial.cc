#include "federated/aggregation/partial.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "engine/base/check.h"
#include "engine/io/crc32c.h"
#include "federated/aggregation/update_spool.h"
#include "federated/aggregation/updates_rule.h"
#include "proto/federated/partial.pb.h"

namespace rivulet {
namespace {

static_assert(std::endian::native == std::endian::little, "sums are written as they are in memory");

constexpr std::string_view kMagic = "RVPART02";
constexpr size_t kBlock = size_t{1} << 20, kCrcBytes = sizeof(uint32_t);
constexpr size_t kMaxPartialTaskBytes = 1024;

template <typename T>
void Put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

template <typename T>
T Get(std::string_view bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

std::span<const std::byte> BytesOf(std::string_view text) { return std::as_bytes(std::span(text)); }

std::span<const std::byte> SumsOf(const PartSums& part) {
  return part.sums.empty() ? std::as_bytes(std::span(part.sums32)) : std::as_bytes(std::span(part.sums));
}
std::span<std::byte> SumsOf(PartSums& part) {
  return part.sums.empty() ? std::as_writable_bytes(std::span(part.sums32))
                           : std::as_writable_bytes(std::span(part.sums));
}

// Task names in the order of a header.
std::vector<TaskId> InOrder(const std::unordered_set<TaskId>& tasks) {
  std::vector<TaskId> ordered(tasks.begin(), tasks.end());
  std::sort(ordered.begin(), ordered.end());
  return ordered;
}

std::string HeadOf(const AggregationSpec& spec, const Partial& partial) {
  proto::PartialHeader header;
  header.set_spec(std::string(partial.spec.AsBytes()));
  header.set_base_version(partial.base_version);
  for (const TaskId& task : InOrder(partial.tasks)) header.add_tasks(task);
  for (size_t p = 0; p < partial.parts.size(); ++p) {
    proto::PartHeader& part = *header.add_parts();
    part.set_name(spec.parts[p].name);
    part.set_weight_sum(partial.parts[p].weight_sum);
    part.set_updates(partial.parts[p].updates);
    part.set_nonzeros(partial.parts[p].nonzeros);
    part.set_lost_nonzeros(partial.parts[p].lost_nonzeros);
  }
  for (size_t i = 0; i < partial.scalars.size(); ++i) {
    proto::ScalarHeader& scalar = *header.add_scalars();
    scalar.set_name(spec.scalars[i].name);
    scalar.set_low(partial.scalars[i].low());
    scalar.set_high(partial.scalars[i].high());
  }
  const std::string bytes = header.SerializeAsString();
  std::string head(kMagic);
  Put(head, static_cast<uint32_t>(bytes.size()));
  head += bytes;
  Put(head, Crc32c(head));
  return head;
}

StatusOr<Partial> FromHeader(const AggregationSpec& spec, std::string_view bytes) {
  proto::PartialHeader header;
  if (!header.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return DataLoss("a partial's header of {} bytes cannot be read", bytes.size());
  }
  const Digest digest = spec.digest();
  if (header.spec() != digest.AsBytes()) {
    return InvalidArgument("a partial sum belongs to another plan; this plan's aggregation is {}", digest.Hex());
  }
  if (header.tasks_size() > spec.updates_per_version) {
    return InvalidArgument("a partial holds {} updates, more than the {} of a version", header.tasks_size(),
                           spec.updates_per_version);
  }
  if (header.parts_size() != std::ssize(spec.parts) || header.scalars_size() != std::ssize(spec.scalars)) {
    return DataLoss("a partial has {} parts and {} scalars where {} and {} belong", header.parts_size(),
                    header.scalars_size(), spec.parts.size(), spec.scalars.size());
  }
  Partial partial;
  partial.spec = digest;
  partial.base_version = header.base_version();
  const std::string* last = nullptr;
  for (const std::string& task : header.tasks()) {
    // Strictly ascending, so no task is repeated.
    if (task.size() > kMaxPartialTaskBytes || (last != nullptr && task <= *last)) {
      return DataLoss("the tasks of a partial are not in order, or one's name has more than {} bytes",
                      kMaxPartialTaskBytes);
    }
    partial.tasks.insert(task);
    last = &task;
  }
  for (size_t p = 0; p < spec.parts.size(); ++p) {
    const proto::PartHeader& part = header.parts(static_cast<int>(p));
    if (part.name() != spec.parts[p].name) {
      return DataLoss("a partial has another part where '{}' belongs", spec.parts[p].name);
    }
    PartSums& sums = partial.parts.emplace_back();
    sums.weight_sum = part.weight_sum();
    sums.updates = part.updates();
    sums.nonzeros = part.nonzeros();
    sums.lost_nonzeros = part.lost_nonzeros();
  }
  for (size_t i = 0; i < spec.scalars.size(); ++i) {
    const proto::ScalarHeader& scalar = header.scalars(static_cast<int>(i));
    if (scalar.name() != spec.scalars[i].name) {
      return DataLoss("a partial has another scalar where '{}' belongs", spec.scalars[i].name);
    }
    partial.scalars.emplace_back(scalar.low(), scalar.high());
  }
  return partial;
}

template <class T>
StatusOr<SumArray<T>> ZeroSums(const PartSpec& spec, SumFiles* files) {
  const auto elements = static_cast<size_t>(spec.elements);
  if (files == nullptr || elements == 0) return SumArray<T>(elements);
  RIVULET_ASSIGN_OR_RETURN(std::shared_ptr<std::byte> file, files->Take(elements * sizeof(T)));
  return SumArray<T>(elements, std::move(file));
}

Status MakeSums(const PartSpec& spec, SumFiles* files, PartSums& part) {
  if (spec.sum_bits == 32) {
    RIVULET_ASSIGN_OR_RETURN(part.sums32, ZeroSums<int32_t>(spec, files));
  } else {
    RIVULET_ASSIGN_OR_RETURN(part.sums, ZeroSums<int64_t>(spec, files));
  }
  return absl::OkStatus();
}

}  // namespace

StatusOr<Partial> EmptyPartial(const AggregationSpec& spec, int64_t base_version, SumFiles* files) {
  Partial partial;
  partial.spec = spec.digest();
  partial.base_version = base_version;
  partial.scalars.resize(spec.scalars.size());
  partial.parts.resize(spec.parts.size());
  if (IsUpdatesRule(spec.rule)) return partial;
  for (size_t p = 0; p < spec.parts.size(); ++p) {
    RIVULET_RETURN_IF_ERROR(MakeSums(spec.parts[p], files, partial.parts[p]));
  }
  return partial;
}

Partial EmptyPartial(const AggregationSpec& spec, int64_t base_version) {
  StatusOr<Partial> partial = EmptyPartial(spec, base_version, nullptr);
  RIVULET_CHECK(partial.ok(), "{}", Message(partial.status()));  // writing to memory cannot fail
  return *std::move(partial);
}

namespace {

// Bytes before an update's values in the body of its part.
constexpr size_t kUpdateHeadBytes = sizeof(uint32_t) + sizeof(int64_t);

uint64_t BytesOfAnUpdate(const PartSpec& part) {
  return kUpdateHeadBytes + static_cast<uint64_t>(part.elements) * sizeof(float);
}

using WriteBytes = std::function<Status(std::span<const std::byte>)>;

Status WriteBlock(std::span<const std::byte> block, const WriteBytes& write) {
  const uint32_t crc = Crc32c(block);
  RIVULET_RETURN_IF_ERROR(write(block));
  return write(std::as_bytes(std::span(&crc, 1)));
}

Status WriteUpdates(const PartSpec& spec, const Partial& partial, const PartSums& part, const WriteBytes& write) {
  std::map<TaskId, uint32_t> indices;
  for (const TaskId& task : InOrder(partial.tasks)) indices.emplace(task, static_cast<uint32_t>(indices.size()));
  std::map<uint32_t, const SpooledPart*> updates;
  for (const SpooledPart& spooled : part.spooled) updates.emplace(indices.at(spooled.task), &spooled);
  std::vector<std::byte> block;
  block.reserve(kBlock);
  for (const auto& [index, spooled] : updates) {
    std::string head;
    Put(head, index);
    Put(head, spooled->weight);
    for (const std::byte byte : BytesOf(head)) {
      block.push_back(byte);
      if (block.size() < kBlock) continue;
      RIVULET_RETURN_IF_ERROR(WriteBlock(block, write));
      block.clear();
    }
    const auto bytes = static_cast<size_t>(spec.elements) * sizeof(float);
    for (size_t at = 0; at < bytes;) {
      const size_t begin = block.size(), count = std::min(kBlock - begin, bytes - at);
      block.resize(begin + count);
      RIVULET_RETURN_IF_ERROR(
          spooled->spool->Read(spooled->offset + static_cast<int64_t>(at), std::span(block).subspan(begin)));
      at += count;
      if (block.size() < kBlock) continue;
      RIVULET_RETURN_IF_ERROR(WriteBlock(block, write));
      block.clear();
    }
  }
  return block.empty() ? absl::OkStatus() : WriteBlock(block, write);
}

}  // namespace

Status WritePartial(const AggregationSpec& spec, const Partial& partial, const WriteBytes& write) {
  RIVULET_CHECK(partial.parts.size() == spec.parts.size() && partial.scalars.size() == spec.scalars.size());
  RIVULET_RETURN_IF_ERROR(write(BytesOf(HeadOf(spec, partial))));
  const bool updates = IsUpdatesRule(spec.rule);
  for (size_t p = 0; p < spec.parts.size(); ++p) {
    const PartSums& part = partial.parts[p];
    std::span<const std::byte> left = SumsOf(part);
    std::string head;
    Put(head, static_cast<uint32_t>(spec.parts[p].name.size()));
    head += spec.parts[p].name;
    Put(head, updates ? part.spooled.size() * BytesOfAnUpdate(spec.parts[p]) : uint64_t{left.size()});
    Put(head, Crc32c(head));
    RIVULET_RETURN_IF_ERROR(write(BytesOf(head)));
    if (updates) RIVULET_RETURN_IF_ERROR(WriteUpdates(spec.parts[p], partial, part, write));
    for (; !left.empty(); left = left.subspan(std::min(kBlock, left.size()))) {
      RIVULET_RETURN_IF_ERROR(WriteBlock(left.first(std::min(kBlock, left.size())), write));
    }
  }
  return absl::OkStatus();
}

// State of the parser. Small fields are collected until complete; sums are written to their final place.
struct PartialReader::State {
  enum class Next { kMagic, kHeader, kSection, kBlock, kBlockCrc, kNothing };

  State(const AggregationSpec& owner, SumFiles* place) : spec(owner), files(place) {}

  const AggregationSpec& spec;
  SumFiles* const files;
  Next next = Next::kMagic;
  std::string head;                                  // fields that are incomplete or still covered by a pending CRC
  size_t wanted = kMagic.size() + sizeof(uint32_t);  // bytes of `head` that the next step needs
  size_t part = 0;
  uint64_t left = 0;          // remaining bytes of the section's body
  size_t block = 0;           // remaining bytes of this block
  std::span<std::byte> sums;  // destination of sums; for rules with updates:
  std::shared_ptr<UpdateSpool> spool;
  std::vector<TaskId> tasks;
  std::string update;      // incomplete head of an update
  uint64_t values = 0;     // remaining bytes of an update's values
  uint32_t next_task = 0;  // lowest index allowed for the next task
  uint32_t crc = 0;
  Partial partial;
  Status status;

  Status Advance() {
    switch (next) {
      case Next::kMagic:
        return AfterMagic();
      case Next::kHeader:
        return AfterHeader();
      case Next::kSection:
        return AfterSectionHead();
      case Next::kBlockCrc:
        return AfterBlockCrc();
      case Next::kBlock:
      case Next::kNothing:
        break;
    }
    return absl::OkStatus();
  }

  void Expect(Next what, size_t bytes) {
    next = what;
    head.clear();
    wanted = bytes;
  }

  Status AfterMagic() {
    if (!head.starts_with(kMagic)) {
      return DataLoss("these bytes are no saved partial: they do not begin with {}", kMagic);
    }
    const size_t length = Get<uint32_t>(std::string_view(head).substr(kMagic.size()));
    // Room for the maximum number of tasks, each with a name of the maximum length.
    const uint64_t most = 65536 + static_cast<uint64_t>(spec.updates_per_version) * (kMaxPartialTaskBytes + 8);
    if (length > most || length > (uint64_t{1} << 31) - 1) {
      return DataLoss("a partial's header of {} bytes is longer than that of a whole version", length);
    }
    next = Next::kHeader;
    wanted = head.size() + length + kCrcBytes;
    return absl::OkStatus();
  }

  Status AfterHeader() {
    const std::string_view all(head), body = all.substr(0, all.size() - kCrcBytes);
    if (Get<uint32_t>(all.substr(body.size())) != Crc32c(body)) return Damaged("its header");
    RIVULET_ASSIGN_OR_RETURN(partial, FromHeader(spec, body.substr(kMagic.size() + sizeof(uint32_t))));
    ExpectSection();
    return absl::OkStatus();
  }

  void ExpectSection() {
    if (part == spec.parts.size()) return Expect(Next::kNothing, 0);
    Expect(Next::kSection, sizeof(uint32_t) + spec.parts[part].name.size() + sizeof(uint64_t) + kCrcBytes);
  }

  Status AfterSectionHead() {
    const std::string_view all(head), body = all.substr(0, all.size() - kCrcBytes);
    const PartSpec& owner = spec.parts[part];
    const uint64_t bytes = Get<uint64_t>(body.substr(body.size() - sizeof(uint64_t)));
    if (Get<uint32_t>(all.substr(body.size())) != Crc32c(body) || Get<uint32_t>(body) != owner.name.size() ||
        body.substr(sizeof(uint32_t), owner.name.size()) != owner.name) {
      return Damaged(fmt::format("the section of part '{}'", owner.name));
    }
    PartSums& owned = partial.parts[part];
    const bool updates = IsUpdatesRule(spec.rule);
    if (owned.updates < 0 || owned.updates > std::ssize(partial.tasks)) {
      return DataLoss("a partial sum of {} tasks claims {} of part '{}'", partial.tasks.size(), owned.updates,
                      owner.name);
    }
    if (!updates) RIVULET_RETURN_IF_ERROR(MakeSums(owner, files, owned));
    sums = SumsOf(owned);
    left = updates ? static_cast<uint64_t>(owned.updates) * BytesOfAnUpdate(owner) : sums.size();
    if (bytes != left) {
      return DataLoss("a partial has {} bytes of part '{}' where {} belong", bytes, owner.name, left);
    }
    if (updates) {
      RIVULET_ASSIGN_OR_RETURN(spool, UpdateSpool::Create());
      tasks = InOrder(partial.tasks);
      next_task = 0;
    }
    ExpectBlock();
    return absl::OkStatus();
  }

  // Takes bytes of a section's body, in pieces of any size.
  Status Take(std::span<const std::byte> bytes) {
    crc = ExtendCrc32c(crc, bytes);
    left -= bytes.size();
    block -= bytes.size();
    if (!sums.empty()) {
      std::memcpy(sums.data(), bytes.data(), bytes.size());
      sums = sums.subspan(bytes.size());
      return absl::OkStatus();
    }
    while (!bytes.empty()) {
      if (values == 0) {
        const std::span<const std::byte> some = bytes.first(std::min(bytes.size(), kUpdateHeadBytes - update.size()));
        update.append(reinterpret_cast<const char*>(some.data()), some.size());
        bytes = bytes.subspan(some.size());
        if (update.size() == kUpdateHeadBytes) RIVULET_RETURN_IF_ERROR(AfterUpdateHead());
        continue;
      }
      const std::span<const std::byte> some =
          bytes.first(static_cast<size_t>(std::min<uint64_t>(bytes.size(), values)));
      RIVULET_RETURN_IF_ERROR(spool->Append(some));
      values -= some.size();
      bytes = bytes.subspan(some.size());
    }
    return absl::OkStatus();
  }

  Status AfterUpdateHead() {
    const auto index = Get<uint32_t>(update);
    if (index < next_task || index >= tasks.size()) {
      return DataLoss("a partial's updates of part '{}' are not in order of its tasks", spec.parts[part].name);
    }
    next_task = index + 1;
    partial.parts[part].spooled.push_back(
        {tasks[index], Get<int64_t>(std::string_view(update).substr(sizeof(uint32_t))), spool, spool->size()});
    update.clear();
    values = static_cast<uint64_t>(spec.parts[part].elements) * sizeof(float);
    return absl::OkStatus();
  }

  void ExpectBlock() {
    if (left == 0) {
      ++part;
      return ExpectSection();
    }
    Expect(Next::kBlock, 0);
    block = static_cast<size_t>(std::min<uint64_t>(kBlock, left));
    crc = 0;
  }

  Status AfterBlockCrc() {
    if (Get<uint32_t>(head) != crc) return Damaged(fmt::format("the sums of part '{}'", spec.parts[part].name));
    ExpectBlock();
    return absl::OkStatus();
  }

  static Status Damaged(std::string_view what) {
    return DataLoss("a saved partial is damaged: {} does not have the CRC-32C that it was written with", what);
  }
};

PartialReader::PartialReader(const AggregationSpec& spec, SumFiles* files)
    : state_(std::make_unique<State>(spec, files)) {}
PartialReader::~PartialReader() = default;

Status PartialReader::Append(std::span<const std::byte> bytes) {
  State& state = *state_;
  while (state.status.ok() && !bytes.empty()) {
    if (state.next == State::Next::kNothing) {
      state.status = DataLoss("{} bytes follow a saved partial's end", bytes.size());
    } else if (state.next == State::Next::kBlock) {
      const std::span<const std::byte> taken = bytes.first(std::min(bytes.size(), state.block));
      state.status = state.Take(taken);
      bytes = bytes.subspan(taken.size());
      if (state.block == 0) state.Expect(State::Next::kBlockCrc, kCrcBytes);
    } else {
      const std::span<const std::byte> taken = bytes.first(std::min(bytes.size(), state.wanted - state.head.size()));
      state.head.append(reinterpret_cast<const char*>(taken.data()), taken.size());
      bytes = bytes.subspan(taken.size());
      if (state.head.size() == state.wanted) state.status = state.Advance();
    }
  }
  return state.status;
}

StatusOr<Partial> PartialReader::Finish() && {
  RIVULET_RETURN_IF_ERROR(state_->status);
  if (state_->next != State::Next::kNothing) return DataLoss("a saved partial ends early; it is cut short");
  return std::move(state_->partial);
}

}  // namespace rivulet
