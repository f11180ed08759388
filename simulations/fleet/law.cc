#include "simulations/fleet/law.h"

#include <array>
#include <charconv>
#include <cmath>
#include <numbers>
#include <optional>

#include "engine/base/math.h"

namespace rivulet {
namespace {

struct LawForm {
  std::string_view name;
  size_t parameters;
};
constexpr std::array<LawForm, 5> kLawForms = {
    {{"", 1}, {"uniform", 2}, {"lognormal", 2}, {"half_normal", 1}, {"exponential", 1}}};

std::string_view Trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

std::optional<double> ParameterIn(std::string_view text) {
  text = Trimmed(text);
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool good = error == std::errc() && end == text.data() + text.size() && std::isfinite(number);
  return good ? std::optional(number) : std::nullopt;
}

}  // namespace

StatusOr<Law> Law::Parse(std::string_view text, std::string_view key) {
  const auto wrong = [&] {
    return InvalidArgument(
        "{} is '{}'; write a number above 0, uniform(LEAST, MOST), lognormal(MEDIAN, DEVIATION), half_normal(SCALE) or "
        "exponential(MEAN)",
        key, text);
  };
  std::string_view rest = Trimmed(text);
  std::string_view name;
  if (const size_t open = rest.find('('); open != rest.npos) {
    if (!rest.ends_with(')')) return wrong();
    name = Trimmed(rest.substr(0, open));
    rest = rest.substr(open + 1, rest.size() - open - 2);
    if (name.empty()) return wrong();
  }
  Law law;
  for (size_t kind = 0; kind < kLawForms.size(); ++kind) {
    if (kLawForms[kind].name != name) continue;
    law.kind_ = static_cast<Kind>(kind);
    const size_t comma = rest.find(',');
    if ((comma == rest.npos) != (kLawForms[kind].parameters == 1)) return wrong();
    const std::optional<double> first = ParameterIn(rest.substr(0, comma));
    const std::optional<double> second = comma == rest.npos ? std::optional(0.0) : ParameterIn(rest.substr(comma + 1));
    const bool from_zero = law.kind_ == Kind::kUniform;
    if (!first || !second || *first < 0 || (*first == 0 && !from_zero) || *second < 0) return wrong();
    if (law.kind_ == Kind::kUniform && !(*second > *first)) return wrong();
    law.first_ = *first;
    law.second_ = *second;
    return law;
  }
  return wrong();
}

double Law::Draw(Draws draws) const {
  switch (kind_) {
    case Kind::kUniform:
      return first_ + (second_ - first_) * draws.Uniform();
    case Kind::kLognormal:
      return first_ * math::Exp(second_ * draws.Normal());
    case Kind::kHalfNormal:
      return first_ * std::fabs(draws.Normal());
    case Kind::kExponential:
      return -first_ * math::Log(1 - draws.Uniform());
    case Kind::kConstant:
      break;
  }
  return first_;
}

double Law::mean() const {
  switch (kind_) {
    case Kind::kUniform:
      return (first_ + second_) / 2;
    case Kind::kLognormal:
      return first_ * math::Exp(second_ * second_ / 2);
    case Kind::kHalfNormal:
      return first_ * std::sqrt(2 / std::numbers::pi);
    case Kind::kConstant:
    case Kind::kExponential:
      break;
  }
  return first_;
}

}  // namespace rivulet
