/* The header as a C program of a robot includes it. */
#include "outrider/chunks.h"
#include "outrider/loop.h"

int loop_header_is_c(void);
int loop_header_is_c(void) {
  outrider_loop_header header = {0};
  outrider_loop_view in, out;
  return outrider_loop_attach(&header, sizeof header, &in, &out);
}

int chunks_header_is_c(void);
int chunks_header_is_c(void) {
  float memory[4], row[2];
  outrider_chunks chunks;
  if (outrider_chunks_init(&chunks, memory, 2, 2) != 0) return -1;
  return outrider_chunks_next(&chunks, row);
}
