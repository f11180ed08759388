#include "federated/privacy/loss_grid.h"

#include <algorithm>
#include <cmath>

namespace rivulet::privacy {
namespace {

// Outcomes with losses within (cell * step, (cell + 1) * step].
struct Chunk {
  int64_t cell = 0;
  double mass = 0;    // of P
  double excess = 0;  // mass - e^(cell * step) * (the mass of Q): at least 0
};

// Every chunk is integrated at two points; a cell has this many, so that the merged pair's chunks are finer than it.
constexpr int kChunksPerCell = 2;

// 1 - e^-x for x >= 0.
double OneMinusExp(double x) { return x < 1e-3 ? x * (1 - x / 2 * (1 - x / 3 * (1 - x / 4))) : -std::expm1(-x); }

class Chunks {
 public:
  Chunks(const LossRange& range, double step) : range_(range), step_(step) {}

  void Add(const LossAtom& atom) {
    if (!(atom.mass > 0)) return;
    if (atom.loss < range_.low || atom.loss > range_.high) {
      (atom.loss < range_.low ? below_ : above_) += atom.mass;
      return;
    }
    const auto cell = static_cast<int64_t>(std::floor(atom.loss / step_));
    chunks_.push_back({cell, atom.mass, atom.mass * OneMinusExp(Above(atom.loss, cell))});
  }

  void Add(const LossSegment& segment) {
    double place = std::clamp(segment.PlaceOf(range_.low), segment.begin, segment.end);
    const double end = std::clamp(segment.PlaceOf(range_.high), segment.begin, segment.end);
    below_ += MassOf(segment, segment.begin, place);
    above_ += MassOf(segment, end, segment.end);
    auto cell = static_cast<int64_t>(std::floor(segment.Loss(place) / step_));
    for (; place < end; ++cell) {
      const double next = std::min(end, segment.PlaceOf(static_cast<double>(cell + 1) * step_));
      if (!(next > place)) continue;
      const int count = std::max(kChunksPerCell, static_cast<int>(std::ceil((next - place) / segment.panel)));
      const double width = (next - place) / count;
      for (int i = 0; i < count; ++i) chunks_.push_back(Integrate(segment, cell, place + i * width, width));
      place = next;
    }
  }

  const std::vector<Chunk>& all() const { return chunks_; }
  // Masses outside of the range.
  double below() const { return below_; }
  double above() const { return above_; }

 private:
  double MassOf(const LossSegment& segment, double begin, double end) const {
    double mass = 0;
    for (double place = begin; place < end; place += segment.panel) {
      mass += Integrate(segment, 0, place, std::min(segment.panel, end - place)).mass;
    }
    return mass;
  }

  double Above(double loss, int64_t cell) const {
    return std::clamp(loss - static_cast<double>(cell) * step_, 0.0, step_);
  }

  // Gauss and Legendre's rule of two points. The excess is integrated as it is: the difference of two masses that are
  // nearly equal would lose its digits.
  Chunk Integrate(const LossSegment& segment, int64_t cell, double begin, double width) const {
    static const double kGauss = 0.5 / std::sqrt(3.0);
    Chunk chunk{.cell = cell};
    for (const double at : {0.5 - kGauss, 0.5 + kGauss}) {
      const double place = begin + at * width, mass = segment.Density(place) * width / 2;
      chunk.mass += mass;
      chunk.excess += mass * OneMinusExp(Above(segment.Loss(place), cell));
    }
    return chunk;
  }

  const LossRange range_;
  const double step_;
  double below_ = 0, above_ = 0;
  std::vector<Chunk> chunks_;
};

LossGrid EmptyGrid(const std::vector<Chunk>& chunks, double step) {
  LossGrid grid{.step = step};
  if (chunks.empty()) return grid;
  grid.first = chunks.front().cell;
  grid.mass.assign(static_cast<size_t>(chunks.back().cell - grid.first) + 2, 0);
  return grid;
}

LossGrid Upper(const std::vector<Chunk>& chunks, double step, double below, double above) {
  LossGrid grid = EmptyGrid(chunks, step);
  grid.infinite = above;
  if (chunks.empty()) return grid;
  const double width = OneMinusExp(step);
  for (const Chunk& chunk : chunks) {
    const auto i = static_cast<size_t>(chunk.cell - grid.first);
    const double up = std::min(chunk.mass, chunk.excess / width);
    grid.mass[i] += chunk.mass - up;
    grid.mass[i + 1] += up;
  }
  grid.mass[1] += below;
  return grid;
}

// The merging: at each multiple first what is left from below it, then as much from above as makes up for that.
class Merge {
 public:
  Merge(const std::vector<Chunk>& chunks, double step) : chunks_(chunks), step_(step), grid_(EmptyGrid(chunks, step)) {}

  LossGrid Run() && {
    if (chunks_.empty()) return std::move(grid_);
    const int64_t last = chunks_.back().cell + 1;
    for (int64_t at = grid_.first; at <= last; ++at) {
      double mass = 0, excess = 0;
      while (next_ < chunks_.size() && chunks_[next_].cell < at) Take(at, 1, mass, excess);
      while (next_ < chunks_.size() && excess < 0) {
        const double gain = left_ * ExcessAt(chunks_[next_], at);
        Take(at, gain > 0 ? std::min(1.0, -excess / gain) : 1, mass, excess);
      }
      // At the end nothing above is left: what has too low a loss goes down to the multiple below it.
      const bool short_of = excess < -1e-9 * mass;
      grid_.mass[static_cast<size_t>(std::max(at - (short_of ? 1 : 0), grid_.first) - grid_.first)] += mass;
    }
    return std::move(grid_);
  }

 private:
  // A chunk's mass minus e^(at * step) times its mass of Q.
  double ExcessAt(const Chunk& chunk, int64_t at) const {
    if (chunk.cell == at) return chunk.excess;
    const double up = static_cast<double>(at - chunk.cell) * step_;
    return chunk.excess * std::exp(up) - chunk.mass * std::expm1(up);
  }

  // Moves a share of what is left of the next chunk to the multiple at hand.
  void Take(int64_t at, double share, double& mass, double& excess) {
    const Chunk& chunk = chunks_[next_];
    mass += share * left_ * chunk.mass;
    excess += share * left_ * ExcessAt(chunk, at);
    left_ *= 1 - share;
    if (share >= 1)
      excess = std::min(excess, 0.0);
    else
      excess = 0;
    if (share >= 1 || left_ < 1e-14) {
      ++next_;
      left_ = 1;
    }
  }

  const std::vector<Chunk>& chunks_;
  const double step_;
  LossGrid grid_;
  size_t next_ = 0;
  double left_ = 1;  // of the next chunk
};

}  // namespace

LossRange RangeOf(std::span<const LossAtom> nodes, double negligible) {
  LossRange range;
  double below = 0, above = 0;
  for (const LossAtom& node : nodes) {
    range.low = node.loss;
    if ((below += node.mass) > negligible) break;
  }
  for (size_t i = nodes.size(); i-- > 0;) {
    range.high = nodes[i].loss;
    if ((above += nodes[i].mass) > negligible) break;
  }
  range.high = std::max(range.high, range.low);
  return range;
}

LossGrids DiscretiseLoss(const LossPair& pair, const LossRange& range, double step) {
  Chunks chunks(range, step);
  for (const LossPiece& piece : pair.pieces) {
    if (piece.segment != nullptr) {
      chunks.Add(*piece.segment);
    } else {
      chunks.Add(piece.atom);
    }
  }
  return {.upper = Upper(chunks.all(), step, pair.below + chunks.below(), pair.infinite + chunks.above()),
          .lower = Merge(chunks.all(), step).Run()};
}

}  // namespace rivulet::privacy
