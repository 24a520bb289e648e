/* Loads well, and has nothing a host could use. */
int not_a_provider(void) {
  return 0;
}
