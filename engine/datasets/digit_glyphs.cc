#include "engine/datasets/digit_glyphs.h"

#include <array>

namespace rivulet {
namespace {

constexpr bool kSmooth = true, kStraight = false;

// 0: a round one, a narrow one, one whose ends cross at the top.
constexpr GlyphPoint k0Round[] = {{.50f, .00f}, {.27f, .12f}, {.17f, .45f}, {.24f, .84f}, {.50f, 1.0f},
                                  {.76f, .85f}, {.83f, .48f}, {.73f, .12f}, {.50f, .00f}};
constexpr GlyphPoint k0Narrow[] = {{.54f, .00f}, {.36f, .14f}, {.28f, .50f}, {.33f, .88f}, {.48f, 1.0f},
                                   {.64f, .86f}, {.71f, .46f}, {.66f, .12f}, {.54f, .00f}};
constexpr GlyphPoint k0Crossed[] = {{.68f, .04f}, {.42f, .03f}, {.21f, .30f}, {.19f, .72f}, {.42f, .99f},
                                    {.68f, .92f}, {.82f, .58f}, {.74f, .22f}, {.40f, .06f}};
constexpr GlyphStroke k0A[] = {{k0Round, kSmooth}};
constexpr GlyphStroke k0B[] = {{k0Narrow, kSmooth}};
constexpr GlyphStroke k0C[] = {{k0Crossed, kSmooth}};
constexpr GlyphVariant k0[] = {{k0A, .5f}, {k0B, .3f}, {k0C, .2f}};

// 1: a bar, one with an upstroke, one with upstroke and foot.
constexpr GlyphPoint k1Bar[] = {{.50f, .00f}, {.50f, 1.0f}};
constexpr GlyphPoint k1Flag[] = {{.30f, .26f}, {.54f, .00f}, {.54f, 1.0f}};
constexpr GlyphPoint k1Foot[] = {{.30f, 1.0f}, {.78f, 1.0f}};
constexpr GlyphStroke k1A[] = {{k1Bar, kStraight}};
constexpr GlyphStroke k1B[] = {{k1Flag, kStraight}};
constexpr GlyphStroke k1C[] = {{k1Flag, kStraight}, {k1Foot, kStraight}};
constexpr GlyphVariant k1[] = {{k1A, .5f}, {k1B, .35f}, {k1C, .15f}};

// 2: a straight base, a loop at the foot, a round foot.
constexpr GlyphPoint k2Swan[] = {{.20f, .24f}, {.32f, .05f}, {.56f, .00f}, {.78f, .14f},
                                 {.76f, .38f}, {.52f, .68f}, {.18f, 1.0f}};
constexpr GlyphPoint k2Base[] = {{.18f, 1.0f}, {.84f, .99f}};
constexpr GlyphPoint k2Looped[] = {{.20f, .20f}, {.36f, .03f}, {.62f, .02f}, {.76f, .20f}, {.66f, .50f}, {.40f, .84f},
                                   {.20f, .97f}, {.15f, .86f}, {.30f, .78f}, {.55f, .92f}, {.86f, .94f}};
constexpr GlyphPoint k2Round[] = {{.22f, .28f}, {.34f, .06f}, {.60f, .01f}, {.77f, .20f}, {.62f, .50f},
                                  {.34f, .78f}, {.24f, .95f}, {.52f, .97f}, {.84f, .90f}};
constexpr GlyphStroke k2A[] = {{k2Swan, kSmooth}, {k2Base, kStraight}};
constexpr GlyphStroke k2B[] = {{k2Looped, kSmooth}};
constexpr GlyphStroke k2C[] = {{k2Round, kSmooth}};
constexpr GlyphVariant k2[] = {{k2A, .45f}, {k2B, .3f}, {k2C, .25f}};

// 3: two bowls, a flat top.
constexpr GlyphPoint k3Upper[] = {{.20f, .14f}, {.46f, .00f}, {.74f, .12f}, {.70f, .36f}, {.40f, .47f}};
constexpr GlyphPoint k3Lower[] = {{.40f, .47f}, {.72f, .56f}, {.80f, .80f}, {.52f, 1.0f}, {.17f, .87f}};
constexpr GlyphPoint k3Flat[] = {{.20f, .03f}, {.76f, .02f}, {.42f, .42f}};
constexpr GlyphPoint k3Bowl[] = {{.42f, .42f}, {.72f, .48f}, {.82f, .74f}, {.54f, 1.0f}, {.18f, .90f}};
constexpr GlyphStroke k3A[] = {{k3Upper, kSmooth}, {k3Lower, kSmooth}};
constexpr GlyphStroke k3B[] = {{k3Flat, kStraight}, {k3Bowl, kSmooth}};
constexpr GlyphVariant k3[] = {{k3A, .75f}, {k3B, .25f}};

// 4: open with corners, closed, open and round.
constexpr GlyphPoint k4Open[] = {{.27f, .00f}, {.18f, .56f}, {.82f, .54f}};
constexpr GlyphPoint k4OpenStem[] = {{.68f, .06f}, {.62f, 1.0f}};
constexpr GlyphPoint k4Closed[] = {{.62f, .00f}, {.14f, .66f}, {.86f, .66f}};
constexpr GlyphPoint k4ClosedStem[] = {{.62f, .00f}, {.62f, 1.0f}};
constexpr GlyphPoint k4Round[] = {{.26f, .02f}, {.20f, .34f}, {.34f, .54f}, {.70f, .44f}};
constexpr GlyphPoint k4RoundStem[] = {{.76f, .00f}, {.70f, .50f}, {.66f, 1.0f}};
constexpr GlyphStroke k4A[] = {{k4Open, kStraight}, {k4OpenStem, kStraight}};
constexpr GlyphStroke k4B[] = {{k4Closed, kStraight}, {k4ClosedStem, kStraight}};
constexpr GlyphStroke k4C[] = {{k4Round, kSmooth}, {k4RoundStem, kSmooth}};
constexpr GlyphVariant k4[] = {{k4A, .45f}, {k4B, .25f}, {k4C, .3f}};

// 5: lid, neck and bowl; one stroke.
constexpr GlyphPoint k5Lid[] = {{.78f, .02f}, {.30f, .03f}, {.26f, .44f}};
constexpr GlyphPoint k5Bowl[] = {{.26f, .44f}, {.52f, .37f}, {.79f, .56f}, {.74f, .86f}, {.46f, 1.0f}, {.17f, .89f}};
constexpr GlyphPoint k5Flowing[] = {{.80f, .02f}, {.44f, .05f}, {.30f, .24f}, {.36f, .42f}, {.62f, .48f},
                                    {.78f, .68f}, {.62f, .94f}, {.36f, 1.0f}, {.18f, .92f}};
constexpr GlyphStroke k5A[] = {{k5Lid, kStraight}, {k5Bowl, kSmooth}};
constexpr GlyphStroke k5B[] = {{k5Flowing, kSmooth}};
constexpr GlyphVariant k5[] = {{k5A, .65f}, {k5B, .35f}};

// 6: a curved stem, a straight one.
constexpr GlyphPoint k6Curved[] = {{.68f, .00f}, {.40f, .20f}, {.23f, .56f}, {.28f, .88f}, {.54f, 1.0f},
                                   {.77f, .84f}, {.70f, .58f}, {.46f, .54f}, {.26f, .74f}};
constexpr GlyphPoint k6Straight[] = {{.40f, .00f}, {.28f, .36f}, {.22f, .74f}, {.38f, .99f},
                                     {.66f, .94f}, {.74f, .70f}, {.52f, .58f}, {.26f, .72f}};
constexpr GlyphStroke k6A[] = {{k6Curved, kSmooth}};
constexpr GlyphStroke k6B[] = {{k6Straight, kSmooth}};
constexpr GlyphVariant k6[] = {{k6A, .6f}, {k6B, .4f}};

// 7: plain, with a bar, with a hook and a curved stem.
constexpr GlyphPoint k7Plain[] = {{.18f, .05f}, {.80f, .04f}, {.40f, 1.0f}};
constexpr GlyphPoint k7Bar[] = {{.34f, .50f}, {.78f, .49f}};
constexpr GlyphPoint k7Hook[] = {{.19f, .22f}, {.20f, .05f}, {.82f, .04f}};
constexpr GlyphPoint k7Stem[] = {{.82f, .04f}, {.60f, .36f}, {.49f, .70f}, {.46f, 1.0f}};
constexpr GlyphStroke k7A[] = {{k7Plain, kStraight}};
constexpr GlyphStroke k7B[] = {{k7Plain, kStraight}, {k7Bar, kStraight}};
constexpr GlyphStroke k7C[] = {{k7Hook, kStraight}, {k7Stem, kSmooth}};
constexpr GlyphVariant k7[] = {{k7A, .5f}, {k7B, .3f}, {k7C, .2f}};

// 8: one crossing stroke, two circles.
constexpr GlyphPoint k8Crossing[] = {{.70f, .14f}, {.50f, .00f}, {.29f, .11f}, {.30f, .34f}, {.52f, .48f},
                                     {.74f, .66f}, {.74f, .89f}, {.50f, 1.0f}, {.26f, .89f}, {.26f, .67f},
                                     {.48f, .48f}, {.70f, .33f}, {.70f, .14f}};
constexpr GlyphPoint k8Upper[] = {{.50f, .00f}, {.32f, .09f}, {.30f, .32f}, {.50f, .46f},
                                  {.70f, .33f}, {.69f, .10f}, {.50f, .00f}};
constexpr GlyphPoint k8Lower[] = {{.50f, .46f}, {.28f, .58f}, {.23f, .84f}, {.50f, 1.0f},
                                  {.77f, .85f}, {.73f, .58f}, {.50f, .46f}};
constexpr GlyphStroke k8A[] = {{k8Crossing, kSmooth}};
constexpr GlyphStroke k8B[] = {{k8Upper, kSmooth}, {k8Lower, kSmooth}};
constexpr GlyphVariant k8[] = {{k8A, .65f}, {k8B, .35f}};

// 9: a leaning stem, a curved tail, an upright stem.
constexpr GlyphPoint k9Loop[] = {{.74f, .18f}, {.54f, .00f}, {.29f, .12f}, {.26f, .38f},
                                 {.46f, .50f}, {.68f, .36f}, {.74f, .16f}};
constexpr GlyphPoint k9Leaning[] = {{.74f, .14f}, {.71f, .50f}, {.60f, 1.0f}};
constexpr GlyphPoint k9Tail[] = {{.74f, .14f}, {.77f, .52f}, {.68f, .88f}, {.48f, 1.0f}, {.26f, .92f}};
constexpr GlyphPoint k9Upright[] = {{.75f, .04f}, {.74f, 1.0f}};
constexpr GlyphStroke k9A[] = {{k9Loop, kSmooth}, {k9Leaning, kSmooth}};
constexpr GlyphStroke k9B[] = {{k9Loop, kSmooth}, {k9Tail, kSmooth}};
constexpr GlyphStroke k9C[] = {{k9Loop, kSmooth}, {k9Upright, kStraight}};
constexpr GlyphVariant k9[] = {{k9A, .45f}, {k9B, .3f}, {k9C, .25f}};

constexpr std::array<std::span<const GlyphVariant>, 10> kDigits = {k0, k1, k2, k3, k4, k5, k6, k7, k8, k9};

}  // namespace

std::span<const GlyphVariant> VariantsOfDigit(int digit) { return kDigits[static_cast<size_t>(digit)]; }

}  // namespace rivulet
