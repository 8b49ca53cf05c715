export default {};
export class Account {}
