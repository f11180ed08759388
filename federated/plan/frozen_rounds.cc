#include "federated/plan/frozen_rounds.h"

#include <charconv>
#include <limits>
#include <optional>
#include <string_view>

#include "engine/base/nearest.h"
#include "engine/base/wildcard.h"
#include "federated/plan/number.h"

namespace rivulet {
namespace {

constexpr int64_t kForGood = int64_t{1} << 53;  // after any round, and an integer in float64

std::optional<int64_t> RoundIn(std::string_view text) {
  int64_t round = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), round);
  return error == std::errc() && end == text.data() + text.size() && round > 0 ? std::optional(round) : std::nullopt;
}

StatusOr<FrozenRounds> ReadRounds(std::string_view line) {
  const size_t equals = line.rfind('='), dots = line.rfind("..");
  FrozenRounds frozen;
  if (equals != std::string_view::npos && equals > 0 && dots != std::string_view::npos && dots > equals) {
    const std::optional<int64_t> from = RoundIn(line.substr(equals + 1, dots - equals - 1));
    const std::string_view last = line.substr(dots + 2);
    const std::optional<int64_t> until = last.empty() ? kForGood : RoundIn(last);
    if (from && until && *from <= *until) {
      frozen.from = *from;
      frozen.until = *until;
      return frozen;
    }
  }
  return InvalidArgument("client.frozen has '{}'; write PATTERN=FROM..UNTIL, such as conv1/*=1..20, with rounds from 1",
                         line);
}

// clamp(later − earlier, 0, 1): for integers, 1 if `earlier` < `later`, else 0.
Output IsBefore(const Scope& scope, Output earlier, Output later) {
  const Output apart = scope.Op("Sub", {later, earlier});
  return scope.Op("Minimum", {scope.Op("Maximum", {apart, Number(scope, 0)}), Number(scope, 1)});
}

Output Int64s(const Scope& scope, int64_t value) {
  Tensor tensor(DType::kInt64, Shape{1});
  tensor.flat<int64_t>()[0] = value;
  return scope.Const(std::move(tensor));
}

}  // namespace

StatusOr<std::vector<FrozenRounds>> ReadFrozen(std::span<const std::string> lines, const ModelLayout& layout) {
  std::vector<FrozenRounds> all;
  for (const std::string& line : lines) {
    RIVULET_ASSIGN_OR_RETURN(FrozenRounds frozen, ReadRounds(line));
    const std::string_view pattern = std::string_view(line).substr(0, line.rfind('='));
    std::vector<std::string> names;
    for (const Slice& slice : layout.slices()) {
      if (!IsTrained(slice.segment)) continue;
      names.push_back(slice.name);
      if (!MatchesWildcard(pattern, slice.name)) continue;
      const auto first = static_cast<int64_t>(slice.offset / sizeof(float));
      std::vector<FrozenRounds::Stretch>& stretches = frozen.stretches;
      // Merges adjacent slices, which only padding separates.
      const bool next = !stretches.empty() && names.size() > 1 && MatchesWildcard(pattern, names[names.size() - 2]);
      if (next) {
        stretches.back().count = first + slice.elements - stretches.back().first;
      } else {
        stretches.push_back({first, slice.elements});
      }
    }
    if (frozen.stretches.empty()) {
      return NotFound("client.frozen: no variable that is trained matches '{}'.{}", pattern,
                      DidYouMean(pattern, names));
    }
    all.push_back(std::move(frozen));
  }
  return all;
}

Output TrainedFactor(const Scope& scope, const FrozenRounds& frozen, Output base_version) {
  const Output round = scope.Op("AddV2", {base_version, Number(scope, 1)});
  const Output before = IsBefore(scope, round, Number(scope, static_cast<double>(frozen.from)));
  const Output after = IsBefore(scope, Number(scope, static_cast<double>(frozen.until)), round);
  return scope.Op("AddV2", {before, after});
}

Output ScaleStretches(const Scope& scope, const FrozenRounds& frozen, Output grads, int64_t elements, Output factor) {
  std::vector<Output> pieces;
  const auto piece = [&](int64_t first, int64_t count) {
    return scope.Op("Slice", {grads, Int64s(scope, first), Int64s(scope, count)});
  };
  int64_t done = 0;
  for (const FrozenRounds::Stretch& stretch : frozen.stretches) {
    if (stretch.first > done) pieces.push_back(piece(done, stretch.first - done));
    pieces.push_back(scope.Op("Mul", {piece(stretch.first, stretch.count), factor}));
    done = stretch.first + stretch.count;
  }
  if (done < elements) pieces.push_back(piece(done, elements - done));
  if (pieces.size() == 1) return pieces[0];
  pieces.push_back(scope.Const(Tensor::Scalar<int32_t>(0), "axis"));
  return scope.Op("ConcatV2", pieces);
}

}  // namespace rivulet
