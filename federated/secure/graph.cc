#include "federated/secure/graph.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <set>
#include <utility>

#include "federated/secure/keystream.h"

namespace rivulet::secure {
namespace {

constexpr std::string_view kGraphLabel = "rivulet secagg 1 graph";
constexpr int kMostSwitches = 1'000'000;
constexpr int kEigenvalueSteps = 100;

// Uniform numbers from a keystream: words of 32 bits, those at or above the largest multiple of the bound passed over.
class GraphDraws {
 public:
  explicit GraphDraws(Keystream stream) : stream_(std::move(stream)) {}
  uint32_t Below(uint32_t bound) {
    const uint64_t most = (uint64_t{1} << 32) / bound * bound;
    while (true) {
      const uint32_t word = stream_.Word();
      if (word < most) return word % bound;
    }
  }

 private:
  Keystream stream_;
};

using Edge = std::pair<uint32_t, uint32_t>;
Edge Ordered(uint32_t a, uint32_t b) { return {std::min(a, b), std::max(a, b)}; }

// The edges of all cycles, one cycle after the other.
std::vector<Edge> DrawCycles(GraphDraws& draws, uint32_t members, int cycles) {
  std::vector<Edge> edges;
  std::vector<uint32_t> order(members);
  for (int cycle = 0; cycle < cycles; ++cycle) {
    for (uint32_t i = 0; i < members; ++i) order[i] = i;
    for (uint32_t i = members - 1; i > 0; --i) std::swap(order[i], order[draws.Below(i + 1)]);
    for (uint32_t i = 0; i < members; ++i) edges.emplace_back(order[i], order[(i + 1) % members]);
  }
  return edges;
}

// A set of edges that answers in constant time.
class EdgeSet {
 public:
  explicit EdgeSet(uint32_t members) : members_(members), bits_((size_t{members} * members + 63) / 64) {}
  bool Has(const Edge& e) const { return (bits_[At(e) / 64] >> At(e) % 64 & 1) != 0; }
  void Add(const Edge& e) { bits_[At(e) / 64] |= uint64_t{1} << At(e) % 64; }
  void Remove(const Edge& e) { bits_[At(e) / 64] &= ~(uint64_t{1} << At(e) % 64); }

 private:
  size_t At(const Edge& e) const { return size_t{e.first} * members_ + e.second; }
  const uint32_t members_;
  std::vector<uint64_t> bits_;
};

// Replaces each edge (a, b) that was there before, with an edge (c, d) drawn from all, by (a, c) and (b, d).
Status SwitchDoubles(GraphDraws& draws, uint32_t members, std::vector<Edge>& edges) {
  EdgeSet present(members);
  std::vector<size_t> doubles;
  std::vector<bool> is_double(edges.size(), false);
  for (size_t e = 0; e < edges.size(); ++e) {
    const Edge ordered = Ordered(edges[e].first, edges[e].second);
    if (present.Has(ordered)) {
      doubles.push_back(e);
      is_double[e] = true;
    } else {
      present.Add(ordered);
    }
  }
  for (const size_t e : doubles) {
    const auto [a, b] = edges[e];
    for (int tries = 0; is_double[e]; ++tries) {
      if (tries == kMostSwitches) {
        return FailedPrecondition(
            "a graph of {} members with {} edges has double ones that cannot be switched; begin "
            "another attempt",
            members, edges.size());
      }
      const size_t f = draws.Below(static_cast<uint32_t>(edges.size()));
      if (is_double[f]) continue;
      const auto [c, d] = edges[f];
      if (a == c || b == d) continue;
      const Edge first = Ordered(a, c), second = Ordered(b, d);
      if (first == second || present.Has(first) || present.Has(second)) continue;
      present.Remove(Ordered(c, d));
      present.Add(first);
      present.Add(second);
      edges[e] = {a, c};
      edges[f] = {b, d};
      is_double[e] = false;
    }
  }
  return absl::OkStatus();
}

}  // namespace

Status NeighbourGraph::Draw(const Digest& context) {
  const Digest key = std::move(Sha256().Update(kGraphLabel).Update(context.AsBytes())).Finish();
  RIVULET_ASSIGN_OR_RETURN(Keystream stream, Keystream::Create(key.bytes));
  GraphDraws draws(std::move(stream));
  const auto members = static_cast<uint32_t>(members_);
  const auto k = static_cast<size_t>(shape_.neighbours);
  std::vector<Edge> edges = DrawCycles(draws, members, shape_.neighbours / 2);
  RIVULET_RETURN_IF_ERROR(SwitchDoubles(draws, members, edges));
  neighbours_.resize(k * members);
  std::vector<uint32_t> filled(members, 0);
  for (const auto& [a, b] : edges) {
    neighbours_[a * k + filled[a]++] = b;
    neighbours_[b * k + filled[b]++] = a;
  }
  for (size_t member = 0; member < members; ++member) {
    const auto begin = neighbours_.begin() + static_cast<std::ptrdiff_t>(member * k);
    std::sort(begin, begin + static_cast<std::ptrdiff_t>(k));
  }
  return absl::OkStatus();
}

StatusOr<std::shared_ptr<const NeighbourGraph>> NeighbourGraph::Create(const Digest& context, int64_t members,
                                                                       const GraphShape& shape) {
  const std::shared_ptr<NeighbourGraph> graph(new NeighbourGraph(members, shape));
  if (shape.complete) return graph;
  RIVULET_RETURN_IF_ERROR(graph->Draw(context));
  const double eigenvalue = graph->SecondEigenvalue();
  if (eigenvalue > EigenvalueBound(shape)) {
    return FailedPrecondition(
        "the graph of {} members with {} neighbours each has a second eigenvalue of {:.2f}, above {:.2f}; keys may "
        "have "
        "been chosen for it, so this cohort is refused",
        members, shape.neighbours, eigenvalue, EigenvalueBound(shape));
  }
  return graph;
}

StatusOr<std::shared_ptr<const NeighbourGraph>> NeighbourGraph::Shared(const Digest& context, int64_t members,
                                                                       const GraphShape& shape) {
  static std::mutex mutex;
  static Digest last_context;
  static std::shared_ptr<const NeighbourGraph> last;
  const std::lock_guard lock(mutex);
  if (last != nullptr && last_context == context && last->members_ == members && last->shape_ == shape) return last;
  RIVULET_ASSIGN_OR_RETURN(last, Create(context, members, shape));
  last_context = context;
  return last;
}

std::vector<uint32_t> NeighbourGraph::NeighboursOf(uint32_t member) const {
  if (!shape_.complete) {
    const auto begin = neighbours_.begin() + static_cast<std::ptrdiff_t>(member) * shape_.neighbours;
    return {begin, begin + shape_.neighbours};
  }
  std::vector<uint32_t> others;
  for (uint32_t other = 0; other < members_; ++other)
    if (other != member) others.push_back(other);
  return others;
}

std::vector<uint32_t> NeighbourGraph::HoldersOf(uint32_t member) const {
  std::vector<uint32_t> holders = NeighboursOf(member);
  if (shape_.complete) holders.insert(std::upper_bound(holders.begin(), holders.end(), member), member);
  return holders;
}

double NeighbourGraph::SecondEigenvalue() const {
  if (shape_.complete) return 1;
  const auto n = static_cast<size_t>(members_), k = static_cast<size_t>(shape_.neighbours);
  // A start without structure; the constant vector, which belongs to the first eigenvalue, is taken out in each step.
  std::vector<double> from(n), to(n);
  uint64_t state = 0x9E3779B97F4A7C15;
  for (double& value : from) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    value = static_cast<double>(state >> 11) * 0x1p-53 - 0.5;
  }
  double growth = 0;
  for (int step = 0; step < kEigenvalueSteps; ++step) {
    double mean = 0;
    for (const double value : from) mean += value;
    mean /= static_cast<double>(n);
    double norm = 0;
    for (double& value : from) {
      value -= mean;
      norm += value * value;
    }
    const double scale = norm > 0 ? 1 / std::sqrt(norm) : 0;
    for (double& value : from) value *= scale;
    double after = 0;
    for (size_t member = 0; member < n; ++member) {
      double sum = 0;
      for (size_t i = 0; i < k; ++i) sum += from[neighbours_[member * k + i]];
      to[member] = sum;
      after += sum * sum;
    }
    growth = std::sqrt(after);
    std::swap(from, to);
  }
  return growth;
}

}  // namespace rivulet::secure
