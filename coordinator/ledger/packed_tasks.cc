#include "coordinator/ledger/packed_tasks.h"

#include <charconv>
#include <cstring>
#include <tuple>
#include <type_traits>

#include "engine/base/check.h"

namespace rivulet {
namespace {

// Fields that most tasks lack. These bits, and one for each column of the result, precede the fields that are present,
// in this order.
enum Has : uint16_t {
  kTaskName = 1u << 0,  // differs from the name by attempt, client and ordinal
  kSite = 1u << 1,      // differs from the previous task's
  kVia = 1u << 2,
  kStep = 1u << 3,
  kExpires = 1u << 4,
  kReason = 1u << 5,
  kArrives = 1u << 6,
  kNotDue = 1u << 7,
  kLost = 1u << 8,
  kTaken = 1u << 9,
  kUploadBegan = 1u << 10,
  kUploaded = 1u << 11,
  kMeasures = 1u << 12,
  kLeftState = 1u << 13,
};
constexpr size_t kColumns = std::tuple_size_v<std::remove_const_t<decltype(kTaskColumns)>>;
static_assert(kColumns <= 32, "a bit for each");
using ColumnBits = std::conditional_t<(kColumns > 16), uint32_t, uint16_t>;

class Packer {
 public:
  explicit Packer(std::string& to) : to_(to) {}
  template <typename T>
  void Value(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    to_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void Text(std::string_view text) {
    Value(static_cast<uint32_t>(text.size()));
    to_.append(text);
  }

 private:
  std::string& to_;
};

class Unpacker {
 public:
  explicit Unpacker(std::string_view from) : from_(from) {}
  template <typename T>
  T Value() {
    T value;
    std::memcpy(&value, from_.data(), sizeof(value));
    from_.remove_prefix(sizeof(value));
    return value;
  }
  std::string_view Text() {
    const auto size = Value<uint32_t>();
    const std::string_view text = from_.substr(0, size);
    from_.remove_prefix(size);
    return text;
  }
  bool done() const { return from_.empty(); }

 private:
  std::string_view from_;
};

// Whether the name is NameOf these arguments.
bool Follows(std::string_view name, std::string_view stem, std::string_view client_id, uint16_t ordinal) {
  char digits[8];
  const auto [end, error] = std::to_chars(digits, digits + sizeof(digits), ordinal);
  const std::string_view number(digits, static_cast<size_t>(end - digits));
  return name.size() == stem.size() + client_id.size() + 1 + number.size() && name.starts_with(stem) &&
         name.ends_with(number) && name.substr(stem.size(), client_id.size()) == client_id &&
         name[stem.size() + client_id.size()] == '-';
}

std::string NameOf(std::string_view stem, std::string_view client_id, uint16_t ordinal) {
  char digits[8];
  const auto [end, error] = std::to_chars(digits, digits + sizeof(digits), ordinal);
  const std::string_view number(digits, static_cast<size_t>(end - digits));
  std::string name;
  name.reserve(stem.size() + client_id.size() + 1 + number.size());
  return name.append(stem).append(client_id).append("-").append(number);
}

// The common prefix of its tasks' names; "" if it has no tasks.
std::string StemOf(const ClosedAttempt& attempt) {
  const std::string name = TaskIdOf(attempt.run_id, {attempt.kind, attempt.round, attempt.number, "", 0});
  return name.substr(0, name.size() - std::string_view("-0").size());
}

}  // namespace

PackedTasks::PackedTasks(const ClosedAttempt& attempt) : count_(attempt.tasks.size()) {
  const std::string stem = StemOf(attempt);
  bytes_.reserve(count_ * 112);
  Packer p(bytes_);
  const std::string* site = nullptr;
  for (const auto& [lease, facts] : attempt.tasks) {
    uint16_t has = 0;
    const auto bit = [&has](bool there, Has which) {
      if (there) has = static_cast<uint16_t>(has | which);
    };
    bit(!Follows(lease.task, stem, lease.client_id, lease.ordinal), kTaskName);
    bit(site == nullptr || lease.site != *site, kSite);
    bit(!lease.via.empty(), kVia);
    bit(lease.step != 0, kStep);
    bit(lease.expires != 0, kExpires);
    bit(!lease.reason.empty(), kReason);
    bit(lease.arrives != 0, kArrives);
    bit(!lease.due, kNotDue);
    bit(lease.lost, kLost);
    bit(facts.taken.has_value(), kTaken);
    bit(facts.upload_began.has_value(), kUploadBegan);
    bit(facts.uploaded.has_value(), kUploaded);
    bit(!facts.measures.empty(), kMeasures);
    bit(facts.left_state, kLeftState);
    ColumnBits known = 0, column_bit = 1;
    ForEachTaskColumn([&](const auto& column) {
      if (IsKnown(facts.*(column.member))) known = static_cast<ColumnBits>(known | column_bit);
      column_bit = static_cast<ColumnBits>(column_bit << 1);
    });

    p.Value(has);
    p.Value(known);
    p.Text(lease.client_id);
    p.Value(lease.ordinal);
    p.Value(lease.kind);
    p.Value(lease.state);
    p.Value(lease.base_round);
    p.Value(facts.offered);
    if (has & kTaskName) p.Text(lease.task);
    if (has & kSite) p.Text(*(site = &lease.site));
    if (has & kVia) p.Text(lease.via);
    if (has & kStep) p.Value(lease.step);
    if (has & kExpires) p.Value(lease.expires);
    if (has & kReason) p.Text(lease.reason);
    if (has & kArrives) p.Value(lease.arrives);
    if (has & kTaken) p.Value(*facts.taken);
    if (has & kUploadBegan) p.Value(*facts.upload_began);
    if (has & kUploaded) p.Value(*facts.uploaded);
    ForEachTaskColumn([&](const auto& column) {
      const auto& member = facts.*(column.member);
      if (IsKnown(member)) p.Value(ValueIn(member));
    });
    if (has & kMeasures) {
      p.Value(static_cast<uint32_t>(facts.measures.size()));
      for (const auto& [name, measure] : facts.measures) {
        p.Text(name);
        p.Value(measure);
      }
    }
  }
}

std::vector<ClosedAttempt::ClosedTask> PackedTasks::Unpack(const ClosedAttempt& attempt) const {
  const std::string stem = StemOf(attempt);
  std::vector<ClosedAttempt::ClosedTask> tasks(count_);
  Unpacker u(bytes_);
  std::string_view site;
  for (auto& [lease, facts] : tasks) {
    const auto has = u.Value<uint16_t>();
    const auto known = u.Value<ColumnBits>();
    lease.client_id = u.Text();
    lease.ordinal = u.Value<uint16_t>();
    lease.kind = u.Value<TaskKind>();
    lease.state = u.Value<Lease::State>();
    lease.base_round = u.Value<int64_t>();
    facts.offered = u.Value<TimeMs>();
    lease.task = has & kTaskName ? std::string(u.Text()) : NameOf(stem, lease.client_id, lease.ordinal);
    if (has & kSite) site = u.Text();
    lease.site = site;
    if (has & kVia) lease.via = u.Text();
    if (has & kStep) lease.step = u.Value<int>();
    if (has & kExpires) lease.expires = u.Value<TimeMs>();
    if (has & kReason) lease.reason = u.Text();
    if (has & kArrives) lease.arrives = u.Value<VirtualTime>();
    lease.due = !(has & kNotDue);
    lease.lost = has & kLost;
    if (has & kTaken) facts.taken = u.Value<TimeMs>();
    if (has & kUploadBegan) facts.upload_began = u.Value<TimeMs>();
    if (has & kUploaded) facts.uploaded = u.Value<TimeMs>();
    ColumnBits column_bit = 1;
    ForEachTaskColumn([&](const auto& column) {
      auto& member = facts.*(column.member);
      if (known & column_bit) {
        auto& value = ValueIn(member);
        value = u.Value<std::remove_reference_t<decltype(value)>>();
      }
      column_bit = static_cast<ColumnBits>(column_bit << 1);
    });
    if (has & kMeasures) {
      for (auto left = u.Value<uint32_t>(); left > 0; --left) {
        std::string name(u.Text());
        facts.measures.emplace(std::move(name), u.Value<Measure>());
      }
    }
    facts.left_state = has & kLeftState;
  }
  RIVULET_CHECK(u.done());
  return tasks;
}

}  // namespace rivulet
