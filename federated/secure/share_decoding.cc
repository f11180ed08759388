#include "federated/secure/share_decoding.h"

#include <algorithm>

namespace rivulet::secure {
namespace {

using Polynomial = std::vector<FieldElement>;  // the constant first; the last coefficient is not 0

void Trim(Polynomial& p) {
  while (!p.empty() && p.back().IsZero()) p.pop_back();
}

Polynomial Product(const Polynomial& a, const Polynomial& b) {
  if (a.empty() || b.empty()) return {};
  Polynomial product(a.size() + b.size() - 1);
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t j = 0; j < b.size(); ++j) product[i + j] += a[i] * b[j];
  return product;
}

Polynomial Sum(Polynomial a, const Polynomial& b) {
  if (a.size() < b.size()) a.resize(b.size());
  for (size_t i = 0; i < b.size(); ++i) a[i] += b[i];
  Trim(a);
  return a;
}

// `a` becomes the remainder; the quotient is returned. `b` is not 0.
Polynomial Divide(Polynomial& a, const Polynomial& b) {
  if (a.size() < b.size()) return {};
  Polynomial quotient(a.size() - b.size() + 1);
  const FieldElement inverse = Inverse(b.back());
  for (size_t i = quotient.size(); i-- > 0;) {
    quotient[i] = a[i + b.size() - 1] * inverse;
    for (size_t j = 0; j < b.size(); ++j) a[i + j] += quotient[i] * b[j];
  }
  Trim(a);
  return quotient;
}

FieldElement Evaluated(const Polynomial& p, uint32_t x) { return ValueAt(p, x); }

// The polynomial through all points, by Newton's form, and the product of all (X - x).
struct Interpolated {
  Polynomial through, vanishing;
};
Interpolated Interpolate(std::span<const uint32_t> xs, std::span<const FieldElement> ys) {
  Interpolated made{{}, {FieldElement{0, 1}}};
  for (size_t i = 0; i < xs.size(); ++i) {
    const FieldElement missing = ys[i] + Evaluated(made.through, xs[i]);
    const FieldElement factor = missing * Inverse(Evaluated(made.vanishing, xs[i]));
    made.through.resize(std::max(made.through.size(), made.vanishing.size()));
    for (size_t j = 0; j < made.vanishing.size(); ++j) made.through[j] += factor * made.vanishing[j];
    // times (X + x)
    made.vanishing.push_back(made.vanishing.back());
    for (size_t j = made.vanishing.size() - 1; j-- > 0;) {
      made.vanishing[j] = made.vanishing[j] * FieldElement{0, xs[i]};
      if (j > 0) made.vanishing[j] += made.vanishing[j - 1];
    }
  }
  Trim(made.through);
  return made;
}

// Gao 2003: the partial extended Euclid of both, until the remainder is short enough; nullopt: too many are wrong.
std::optional<Polynomial> GaoDecoded(std::span<const uint32_t> xs, std::span<const FieldElement> ys, size_t terms) {
  Interpolated made = Interpolate(xs, ys);
  if (made.through.size() <= terms) return made.through;
  Polynomial older = std::move(made.vanishing), newer = std::move(made.through);
  Polynomial older_factor, newer_factor{FieldElement{0, 1}};
  while (2 * newer.size() > xs.size() + terms + 1 && !newer.empty()) {
    const Polynomial quotient = Divide(older, newer);
    std::swap(older, newer);
    Polynomial factor = Sum(Product(quotient, newer_factor), older_factor);
    older_factor = std::move(newer_factor);
    newer_factor = std::move(factor);
  }
  if (newer_factor.empty()) return std::nullopt;
  Polynomial remainder = std::move(newer);
  Polynomial decoded = Divide(remainder, newer_factor);
  Trim(decoded);
  if (!remainder.empty() || decoded.size() > terms) return std::nullopt;
  return decoded;
}

FieldElement HalfOf(const HeldShare& share, size_t half) {
  return ElementOf(share.share.subspan(half * kFieldBytes).first<kFieldBytes>());
}

class Decoder {
 public:
  Decoder(std::span<const HeldShare> shares, size_t terms,
          const std::function<bool(std::span<const uint8_t, kSecretBytes>)>& fits)
      : shares_(shares), terms_(terms), fits_(fits) {}

  std::optional<DecodedSecret> FromFirst() const { return FromSubset(FirstIndices()); }

  std::optional<DecodedSecret> FromCode() const {
    std::vector<uint32_t> xs;
    for (const HeldShare& share : shares_) xs.push_back(share.holder);
    std::array<Polynomial, 2> halves;
    for (size_t half = 0; half < 2; ++half) {
      std::vector<FieldElement> ys;
      for (const HeldShare& share : shares_) ys.push_back(HalfOf(share, half));
      std::optional<Polynomial> decoded = GaoDecoded(xs, ys, terms_);
      if (!decoded) return std::nullopt;
      halves[half] = *std::move(decoded);
    }
    return Accepted(halves);
  }

  // All ways to leave out shares, if they are few; the first subset is known not to fit.
  std::optional<DecodedSecret> FromAnySubset() const {
    if (!FewSubsets()) return std::nullopt;
    std::vector<size_t> chosen = FirstIndices();
    while (NextSubset(chosen)) {
      if (auto found = FromSubset(chosen)) return found;
    }
    return std::nullopt;
  }

 private:
  std::vector<size_t> FirstIndices() const {
    std::vector<size_t> first(terms_);
    for (size_t i = 0; i < terms_; ++i) first[i] = i;
    return first;
  }

  bool FewSubsets() const {
    double ways = 1;
    for (size_t i = 1; i <= shares_.size() - terms_; ++i) {
      ways = ways * static_cast<double>(terms_ + i) / static_cast<double>(i);
      if (ways > kMostSubsets) return false;
    }
    return true;
  }

  // The next one in lexicographic order.
  bool NextSubset(std::vector<size_t>& chosen) const {
    for (size_t i = terms_; i-- > 0;) {
      if (chosen[i] == shares_.size() - terms_ + i) continue;
      ++chosen[i];
      for (size_t j = i + 1; j < terms_; ++j) chosen[j] = chosen[j - 1] + 1;
      return true;
    }
    return false;
  }

  std::optional<DecodedSecret> FromSubset(const std::vector<size_t>& chosen) const {
    std::vector<uint32_t> holders;
    std::vector<std::span<const uint8_t>> shares;
    for (const size_t i : chosen) {
      holders.push_back(shares_[i].holder);
      shares.push_back(shares_[i].share);
    }
    const SecretBytes secret = Recombination(holders).Secret(shares);
    if (!fits_(secret.span().first<kSecretBytes>())) return std::nullopt;
    // Only now the polynomials, by which the other shares are judged.
    std::array<Polynomial, 2> halves;
    for (size_t half = 0; half < 2; ++half) {
      std::vector<FieldElement> ys;
      for (const size_t i : chosen) ys.push_back(HalfOf(shares_[i], half));
      halves[half] = Interpolate(holders, ys).through;
    }
    return Accepted(halves);
  }

  std::optional<DecodedSecret> Accepted(const std::array<Polynomial, 2>& halves) const {
    DecodedSecret decoded{SecretBytes(kSecretBytes), {}};
    for (size_t half = 0; half < 2; ++half) {
      WriteElement(halves[half].empty() ? FieldElement{} : halves[half].front(),
                   decoded.secret.span().subspan(half * kFieldBytes).first<kFieldBytes>());
    }
    if (!fits_(decoded.secret.span().first<kSecretBytes>())) return std::nullopt;
    for (const HeldShare& share : shares_) {
      const bool right = Evaluated(halves[0], share.holder) == HalfOf(share, 0) &&
                         Evaluated(halves[1], share.holder) == HalfOf(share, 1);
      if (!right) decoded.wrong.push_back(share.holder);
    }
    std::sort(decoded.wrong.begin(), decoded.wrong.end());
    return decoded;
  }

  std::span<const HeldShare> shares_;
  const size_t terms_;
  const std::function<bool(std::span<const uint8_t, kSecretBytes>)>& fits_;
};

}  // namespace

std::optional<DecodedSecret> DecodeSecret(std::span<const HeldShare> shares, int threshold,
                                          const std::function<bool(std::span<const uint8_t, kSecretBytes>)>& fits) {
  const Decoder decoder(shares, static_cast<size_t>(threshold), fits);
  if (auto decoded = decoder.FromCode()) return decoded;
  if (auto decoded = decoder.FromFirst()) return decoded;
  return decoder.FromAnySubset();
}

}  // namespace rivulet::secure
