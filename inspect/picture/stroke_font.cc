#include "inspect/picture/stroke_font.h"

#include <algorithm>
#include <array>

namespace rivulet {
namespace {

// A glyph's strokes, separated by spaces, as pairs of digits: x from its left side, y from two units below the
// baseline. Capitals have height six, small letters four.
constexpr std::array<const char*, 95> kGlyphs = {
    "",                                    // space
    "0804 02",                             // !
    "0806 1816",                           // "
    "1218 3238 0444 0646",                 // #
    "473818070615354443321203 2129",       // $
    "0248 0708181707 3233434232",          // %
    "42060718272604031222 2244",           // &
    "0806",                                // '
    "19070311",                            // (
    "09171301",                            // )
    "2723 0644 4604",                      // *
    "0545 2723",                           // +
    "121100",                              // ,
    "0535",                                // -
    "02",                                  // .
    "0139",                                // /
    "120307182837332212",                  // 0
    "172822 1232",                         // 1
    "071828373602 0232",                   // 2
    "07182837362515 253433221203",         // 3
    "22280434",                            // 4
    "3808052534332202",                    // 5
    "372818070312223334251504",            // 6
    "083812",                              // 7
    "15060718283736251504031222333425",    // 8
    "031222333728180706152536",            // 9
    "02 05",                               // :
    "121100 15",                           // ;
    "370533",                              // <
    "0636 0434",                           // =
    "073503",                              // >
    "07182837362524 22",                   // ?
    "3626151423343634434547381807031232",  // @
    "022842 1434",                         // A
    "02083847463505 3544433202",           // B
    "4738180703123243",                    // C
    "02082846442202",                      // D
    "42020848 0535",                       // E
    "020848 0535",                         // F
    "473818070312324345 4525",             // G
    "0208 4248 0545",                      // H
    "1218 0222 0828",                      // I
    "0312223338",                          // J
    "0208 480542",                         // K
    "080242",                              // L
    "0208254842",                          // M
    "02084248",                            // N
    "120307183847433212",                  // O
    "02083847463505",                      // P
    "120307183847433212 2442",             // Q
    "02083847463505 2542",                 // R
    "473818070615354443321203",            // S
    "0848 2822",                           // T
    "080312324348",                        // U
    "082248",                              // V
    "0812263248",                          // W
    "0248 0842",                           // X
    "082548 2522",                         // Y
    "08480242",                            // Z
    "19090111",                            // [
    "0931",                                // backslash
    "09191101",                            // ]
    "062846",                              // ^
    "0141",                                // _
    "0816",                                // `
    "3632 3526160503122233",               // a
    "0802 0312223335261605",               // b
    "3526160503122233",                    // c
    "3832 3322120305162635",               // d
    "043435261605031233",                  // e
    "121728 0626",                         // f
    "3631201001 3526160503122233",         // g
    "0802 0516263532",                     // h
    "0206 08",                             // i
    "161100 18",                           // j
    "0802 360432",                         // k
    "080312",                              // l
    "0602 05162522 25364542",              // m
    "0602 0516263532",                     // n
    "120305162635332212",                  // o
    "0600 0312223335261605",               // p
    "3630 3322120305162635",               // q
    "0602 051626",                         // r
    "35261605142433221203",                // s
    "181322 0626",                         // t
    "0603122233 3632",                     // u
    "062246",                              // v
    "0612253246",                          // w
    "0236 0632",                           // x
    "0622 4610",                           // y
    "06360232",                            // z
    "2918160514121221",                    // {
    "0901",                                // |
    "0918162514121201",                    // }
    "05162536",                            // ~
};
constexpr double kUnit = 1.0 / 6, kGlyphGap = 1.8, kSpace = 2, kDigit = 3;

}  // namespace

StrokedText StrokesOf(std::string_view text) {
  StrokedText drawn;
  double left = 0;
  for (const char c : text) {
    if ((static_cast<unsigned char>(c) & 0xC0) == 0x80) continue;  // the rest of a character beyond ASCII
    const char known = c >= ' ' && c <= '~' ? c : '?';
    const std::string_view glyph = kGlyphs[static_cast<size_t>(known - ' ')];
    double width = known == ' ' ? kSpace : known >= '0' && known <= '9' ? kDigit : 0;
    std::vector<std::pair<double, double>> stroke;
    for (size_t i = 0; i <= glyph.size(); i += 2) {
      if (i == glyph.size() || glyph[i] == ' ') {
        if (!stroke.empty()) drawn.strokes.push_back(std::move(stroke));
        stroke.clear();
        if (i == glyph.size()) break;
        ++i;
      }
      const double x = glyph[i] - '0', y = glyph[i + 1] - '2';
      width = std::max(width, x);
      stroke.emplace_back((left + x) * kUnit, -y * kUnit);
    }
    left += width + kGlyphGap;
  }
  drawn.width = std::max(0.0, left - kGlyphGap) * kUnit;
  return drawn;
}

}  // namespace rivulet
