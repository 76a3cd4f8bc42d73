// A colour for each class: the one it was given, or that of its place. It helps to find a class; words say which it is.
const NAMED = 8; // told apart by the colour-blind, as app.css has them

export const colourOf = (one, place) => one.colour || (place < NAMED ? `var(--class-${place + 1})` : `oklch(65% 0.13 ${Math.round(place * 137.5) % 360})`);

export function tint(element, colour) {
  element.classList.add("tinted");
  element.style.setProperty("--tint", colour);
  return element;
}
