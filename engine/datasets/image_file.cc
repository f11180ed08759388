#include "engine/datasets/image_file.h"

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>

#ifdef RIVULET_PNG
#include <png.h>
#endif
#ifdef RIVULET_JPEG
#include <jpeglib.h>
#endif

namespace rivulet {
namespace {

constexpr std::string_view kPngEnd("IEND\xae\x42\x60\x82", 8);  // the last chunk's name and checksum
constexpr std::string_view kPngMagic("\x89PNG\r\n\x1a\n", 8), kJpegMagic("\xff\xd8\xff", 3);

[[maybe_unused]] Status TooLarge(uint64_t width, uint64_t height) {
  return DataLoss("an image of {} × {} pixels; at most {} can be read", width, height, kMaxImagePixels);
}
[[maybe_unused]] bool Fits(uint64_t width, uint64_t height) {
  return width > 0 && height > 0 && width <= static_cast<uint64_t>(kMaxImagePixels) / height;
}

#ifdef RIVULET_PNG
StatusOr<Image> DecodePng(std::string_view bytes, int channels) {
  // libpng reads no further than the last pixel and would take a file for whole whose checksums are gone.
  if (bytes.find(kPngEnd) == std::string_view::npos) return DataLoss("a damaged PNG file: cut off before its end");
  png_image png = {};
  png.version = PNG_IMAGE_VERSION;
  const auto damaged = [&] {
    const Status status = DataLoss("a damaged PNG file: {}", png.message);
    png_image_free(&png);
    return status;
  };
  if (png_image_begin_read_from_memory(&png, bytes.data(), bytes.size()) == 0) return damaged();
  if (!Fits(png.width, png.height)) {
    const Status status = TooLarge(png.width, png.height);
    png_image_free(&png);
    return status;
  }
  png.format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  png.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;
  Image image{.width = png.width, .height = png.height};
  image.pixels.assign(PNG_IMAGE_SIZE(png), '\0');  // black, which shows through
  if (png_image_finish_read(&png, nullptr, image.pixels.data(), 0, nullptr) == 0 || PNG_IMAGE_FAILED(png))
    return damaged();
  return image;
}
#endif

#ifdef RIVULET_JPEG
// libjpeg leaves by longjmp: nothing that has a destructor may live between.
struct JpegErrors {
  jpeg_error_mgr manager;  // first, as libjpeg knows only this
  jmp_buf leave;
  char message[JMSG_LENGTH_MAX];
};

void LeaveJpeg(j_common_ptr jpeg) {
  auto* const errors = reinterpret_cast<JpegErrors*>(jpeg->err);
  (*jpeg->err->format_message)(jpeg, errors->message);
  std::longjmp(errors->leave, 1);
}

// Data faults that are only warnings in libjpeg, such as truncated data, are errors here.
void LeaveAtWarning(j_common_ptr jpeg, int level) {
  if (level < 0) LeaveJpeg(jpeg);
}

// A small file may have very many scans, each of which costs a pass over the whole image.
void LimitScans(j_common_ptr jpeg) {
  constexpr int kMaxScans = 200;
  if (!jpeg->is_decompressor || reinterpret_cast<j_decompress_ptr>(jpeg)->input_scan_number <= kMaxScans) return;
  auto* const errors = reinterpret_cast<JpegErrors*>(jpeg->err);
  std::snprintf(errors->message, sizeof(errors->message), "more than %d scans", kMaxScans);
  std::longjmp(errors->leave, 1);
}

enum class JpegEnd { kGood, kDamaged, kTooLarge };

// `pixels` is taken with malloc, and the caller's.
JpegEnd ReadJpeg(std::string_view bytes, int channels, jpeg_decompress_struct& jpeg, JpegErrors& errors,
                 unsigned char*& pixels) {
  jpeg_progress_mgr progress = {};
  progress.progress_monitor = LimitScans;
  if (setjmp(errors.leave) != 0) return JpegEnd::kDamaged;
  jpeg_create_decompress(&jpeg);
  jpeg.progress = &progress;
  jpeg.mem->max_memory_to_use = long{1} << 30;
  jpeg_mem_src(&jpeg, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  jpeg_read_header(&jpeg, TRUE);
  if (!Fits(jpeg.image_width, jpeg.image_height)) return JpegEnd::kTooLarge;
  jpeg.out_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg.dct_method = JDCT_ISLOW;
  jpeg_start_decompress(&jpeg);
  const size_t stride = size_t{jpeg.output_width} * static_cast<size_t>(channels);
  pixels = static_cast<unsigned char*>(std::malloc(stride * jpeg.output_height));
  if (pixels == nullptr) return JpegEnd::kTooLarge;
  while (jpeg.output_scanline < jpeg.output_height) {
    JSAMPROW row = pixels + stride * jpeg.output_scanline;
    jpeg_read_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_decompress(&jpeg);
  return JpegEnd::kGood;
}

StatusOr<Image> DecodeJpeg(std::string_view bytes, int channels) {
  JpegErrors errors = {};
  jpeg_decompress_struct jpeg = {};
  jpeg.err = jpeg_std_error(&errors.manager);
  errors.manager.error_exit = LeaveJpeg;
  errors.manager.emit_message = LeaveAtWarning;
  unsigned char* pixels = nullptr;
  const JpegEnd end = ReadJpeg(bytes, channels, jpeg, errors, pixels);
  Image image{.width = jpeg.image_width, .height = jpeg.image_height};
  if (end == JpegEnd::kGood)
    image.pixels.assign(reinterpret_cast<const char*>(pixels),
                        static_cast<size_t>(image.width * image.height * channels));
  std::free(pixels);
  jpeg_destroy_decompress(&jpeg);
  if (end == JpegEnd::kTooLarge) return TooLarge(jpeg.image_width, jpeg.image_height);
  if (end == JpegEnd::kDamaged) return DataLoss("a damaged JPEG file, or one that cannot be read: {}", errors.message);
  return image;
}
#endif

}  // namespace

StatusOr<Image> DecodeImage(std::string_view bytes, [[maybe_unused]] int channels) {
  if (bytes.starts_with(kPngMagic)) {
#ifdef RIVULET_PNG
    return DecodePng(bytes, channels);
#else
    return Unimplemented(
        "a PNG file, but this program was built without libpng; install libpng-dev and build it again");
#endif
  }
  if (bytes.starts_with(kJpegMagic)) {
#ifdef RIVULET_JPEG
    return DecodeJpeg(bytes, channels);
#else
    return Unimplemented(
        "a JPEG file, but this program was built without libjpeg; install libjpeg-dev and build it again");
#endif
  }
  return DataLoss("neither a PNG nor a JPEG file");
}

}  // namespace rivulet
