// The form of a saved Partial, all little-endian:
//
//   "RVPART01"
//   u32 length, rule           i64 elements, updates_per_version, max_weight, value_bits, min_updates, sum_bits,
//                              weight_fraction_bits, staleness_bits
//   i64 weight_sum, lost_nonzeros, nonzeros
//   u32 count, then each scalar:  u32 length, name, f64 sum
//   u64 count, then each task:    u32 length, task_id        (in byte order)
//   u64 count, then each sum:     i64, or i32 where sum_bits is 32
//   32 bytes: SHA-256 of everything before
#include <bit>
#include <cstring>
#include <limits>

#include "engine/base/sha256.h"
#include "federated/aggregation/aggregation.h"
#include "federated/aggregation/fixed_point.h"

namespace rivulet {
namespace {

static_assert(std::endian::native == std::endian::little, "sums are written as they lie in memory");

constexpr std::string_view kMagic = "RVPART01";

template <typename T>
void Put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void PutText(std::string& out, std::string_view text) {
  Put(out, static_cast<uint32_t>(text.size()));
  out.append(text);
}

// Takes values off the front of `bytes`; after the first shortfall everything is zero and `ok` is false.
struct Reader {
  std::string_view bytes;
  bool ok = true;

  std::string_view Take(uint64_t count) {
    if (!ok || count > bytes.size()) {
      ok = false;
      return {};
    }
    const std::string_view taken = bytes.substr(0, count);
    bytes.remove_prefix(count);
    return taken;
  }
  template <typename T>
  T Get() {
    T value{};
    const std::string_view taken = Take(sizeof(T));
    if (ok) std::memcpy(&value, taken.data(), sizeof(T));
    return value;
  }
  // What an int cannot hold is out of every range.
  int GetInt() {
    const auto value = Get<int64_t>();
    return value == static_cast<int>(value) ? static_cast<int>(value) : std::numeric_limits<int>::min();
  }
  std::string GetText() { return std::string(Take(Get<uint32_t>())); }
};

}  // namespace

// Maps and sets are sorted, so that equal partials are equal bytes.
std::string Partial::Serialize() const {
  std::string out;
  out.reserve(sums.size() * 8 + tasks.size() * 64 + 256);
  out.append(kMagic);
  PutText(out, spec.rule);
  for (const int64_t field : {spec.elements, spec.updates_per_version, spec.max_weight, int64_t{spec.value_bits},
                              spec.min_updates, int64_t{spec.sum_bits}, int64_t{spec.weight_fraction_bits},
                              int64_t{spec.staleness_bits}, weight_sum, lost_nonzeros, nonzeros}) {
    Put(out, field);
  }
  Put(out, static_cast<uint32_t>(scalar_sums.size()));
  for (const auto& [name, sum] : scalar_sums) {
    PutText(out, name);
    Put(out, sum);
  }
  Put(out, static_cast<uint64_t>(tasks.size()));
  for (const TaskId& task : tasks) PutText(out, task);
  const bool narrow = spec.sum_bits == 32;
  Put(out, static_cast<uint64_t>(narrow ? sums32.size() : sums.size()));
  out.append(narrow ? std::string_view(reinterpret_cast<const char*>(sums32.data()), sums32.size() * sizeof(int32_t))
                    : std::string_view(reinterpret_cast<const char*>(sums.data()), sums.size() * sizeof(int64_t)));
  const Digest digest = Sha256Of(out);
  out.append(digest.AsBytes());
  return out;
}

StatusOr<Partial> Partial::Parse(std::string_view bytes) {
  if (!bytes.starts_with(kMagic))
    return DataLoss("these {} bytes are no saved partial: they do not begin with {}", bytes.size(), kMagic);
  constexpr size_t kDigestBytes = 32;
  if (bytes.size() < kMagic.size() + kDigestBytes) return DataLoss("a saved partial ends after {} bytes", bytes.size());
  const std::string_view body = bytes.substr(0, bytes.size() - kDigestBytes);
  if (Sha256Of(body).AsBytes() != bytes.substr(body.size())) {
    return DataLoss("a saved partial of {} bytes does not have the SHA-256 at its end; it is damaged or cut short",
                    bytes.size());
  }
  Reader reader{body.substr(kMagic.size())};
  Partial partial;
  partial.spec.rule = reader.GetText();
  partial.spec.elements = reader.Get<int64_t>();
  partial.spec.updates_per_version = reader.Get<int64_t>();
  partial.spec.max_weight = reader.Get<int64_t>();
  partial.spec.value_bits = reader.GetInt();
  partial.spec.min_updates = reader.Get<int64_t>();
  partial.spec.sum_bits = reader.GetInt();
  partial.spec.weight_fraction_bits = reader.GetInt();
  partial.spec.staleness_bits = reader.GetInt();
  partial.weight_sum = reader.Get<int64_t>();
  partial.lost_nonzeros = reader.Get<int64_t>();
  partial.nonzeros = reader.Get<int64_t>();
  for (uint32_t left = reader.Get<uint32_t>(); left > 0 && reader.ok; --left) {
    const std::string name = reader.GetText();
    partial.scalar_sums[name] = reader.Get<double>();
  }
  for (uint64_t left = reader.Get<uint64_t>(); left > 0 && reader.ok; --left) partial.tasks.insert(reader.GetText());
  const auto sums = reader.Get<uint64_t>();
  const bool narrow = partial.spec.sum_bits == 32;
  const size_t width = narrow ? sizeof(int32_t) : sizeof(int64_t);
  // The digest only proves that nothing was damaged on the way; who wrote it may still have written nonsense.
  if (!reader.ok || sums > reader.bytes.size() / width || sums * width != reader.bytes.size() ||
      static_cast<int64_t>(sums) != partial.spec.elements) {
    return DataLoss("a saved partial's counts do not fit its {} bytes", bytes.size());
  }
  RIVULET_RETURN_IF_ERROR(Annotate(ValidateSpec(partial.spec), "a saved partial"));
  narrow ? partial.sums32.resize(sums) : partial.sums.resize(sums);
  std::memcpy(narrow ? static_cast<void*>(partial.sums32.data()) : partial.sums.data(), reader.bytes.data(),
              reader.bytes.size());
  return partial;
}

}  // namespace rivulet
