// Light or dark colours: the system's, unless the user chooses.

const KEY = 'quorlock.theme';
const NEXT = { system: 'light', light: 'dark', dark: 'system' };
const SIGNS = { system: '◐', light: '○', dark: '●' };

/** Lets a button switch the colours. */
export function themeSwitch(button) {
  let theme = NEXT[localStorage.getItem(KEY)] ? localStorage.getItem(KEY) : 'system';
  const apply = () => {
    document.documentElement.dataset.theme = theme;
    button.textContent = SIGNS[theme];
    button.setAttribute('aria-label', `Colours: ${theme}`);
    button.title = `Colours: ${theme}`;
    dispatchEvent(new Event('theme'));
  };
  button.addEventListener('click', () => {
    theme = NEXT[theme];
    localStorage.setItem(KEY, theme);
    apply();
  });
  apply();
}
